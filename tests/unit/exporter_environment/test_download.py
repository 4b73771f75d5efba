"""Downloading through pip: how it is called, what is shown, what comes out."""

from __future__ import annotations

from pathlib import Path

import pytest
from exporter_environment import download
from exporter_environment.errors import InstallError
from exporter_environment.locks import Requirement
from exporter_environment.progress import Progress, human_size
from fake_pip import FakePip, MakeWheel, sha256

INDEX = "https://cpu.example/whl"


def requirement(wheel: Path) -> Requirement:
    """The locked requirement that a wheel fulfils."""
    name, version = download.wheel_identity(wheel.name)
    return Requirement(name, version.partition("+")[0], "", frozenset({sha256(wheel)}))


@pytest.fixture
def index(pip: FakePip, make_wheel: MakeWheel) -> FakePip:
    """A pip that finds torch and demo."""
    pip.wheels = [make_wheel("demo_pkg-1.0", {}), make_wheel("torch-2.13.0+cpu", {})]
    return pip


def fetch(pip: FakePip, place: Path, **settings: object) -> dict[str, Path]:
    """Downloads everything that the index has."""
    requirements = {r.name: r for r in sorted(map(requirement, pip.wheels), key=lambda r: r.name)}
    return download.download(pip, requirements, place, Progress(), **settings)  # type: ignore[arg-type]


def test_arguments(index: FakePip, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hashes are required, nothing is built, no index is named, one line is shown per package."""
    wheels = fetch(index, tmp_path / "out")
    assert {name: path.name for name, path in wheels.items()} == {
        "demo-pkg": "demo_pkg-1.0-py3-none-any.whl",
        "torch": "torch-2.13.0+cpu-py3-none-any.whl",
    }
    (call,) = index.calls
    assert call[:5] == ["download", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    assert not [word for word in call if "index" in word or "://" in word]
    shown = capsys.readouterr().err
    assert "[1/2] demo-pkg 1.0 (1.2 MB)\n[2/2] torch 2.13.0+cpu (1.2 MB)\n" in shown
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".whl", ".whl"]


def test_extra_index_only_for_torch(index: FakePip, tmp_path: Path) -> None:
    """The index of CPU builds is asked for torch alone, when pip's settings lead to CUDA."""
    index.versions = "torch (2.13.0)\nAvailable versions: 2.13.0\n"
    fetch(index, tmp_path / "out", extra_index=INDEX, extra_index_for=frozenset({"torch"}))
    asked, torch, rest = index.calls
    assert asked[:2] == ["index", "versions"]
    assert INDEX not in asked
    assert torch[-2:] == ["--index-url", INDEX]
    assert INDEX not in rest


def test_extra_index_not_needed(index: FakePip, tmp_path: Path) -> None:
    """A CPU build in pip's own settings: the additional index is never asked."""
    index.versions = "torch (2.13.0+cpu)\nAvailable versions: 2.13.0+cpu, 2.13.0\n"
    fetch(index, tmp_path / "out", extra_index=INDEX, extra_index_for=frozenset({"torch"}))
    assert INDEX not in [word for call in index.calls for word in call]


def test_failure_names_the_index(index: FakePip, tmp_path: Path) -> None:
    """The message tells where torch was looked for."""
    index.versions = ""
    index.failure = "ERROR: No matching distribution found for torch==2.13.0\n"
    with pytest.raises(InstallError) as caught:
        fetch(index, tmp_path / "out", extra_index=INDEX, extra_index_for=frozenset({"torch"}))
    assert f"where: pip download of torch --index-url {INDEX}" in str(caught.value)
    assert "torch_index" in str(caught.value)


def test_missing_wheel(pip: FakePip, tmp_path: Path) -> None:
    """A pip that ends well without a file."""
    wanted = {"a": Requirement("a", "1", "", frozenset({"0" * 64}))}
    with pytest.raises(InstallError, match="left no wheel"):
        download.download(pip, wanted, tmp_path / "out", Progress())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl", ("torch", "2.13.0+cpu")),
        ("ruamel_yaml-0.19.1-py3-none-any.whl", ("ruamel-yaml", "0.19.1")),
        ("a-1.0-1build-py3-none-any.whl", ("a", "1.0")),
    ],
)
def test_identity(name: str, identity: tuple[str, str]) -> None:
    """Name and version in a wheel's file name."""
    assert download.wheel_identity(name) == identity


@pytest.mark.parametrize("name", ["a-1.0.tar.gz", "a.whl"])
def test_no_wheel(name: str) -> None:
    """Sources are not installed."""
    with pytest.raises(InstallError, match="not a wheel"):
        download.wheel_identity(name)


def test_sizes() -> None:
    """Sizes are short."""
    sizes = {191_794_682: "192 MB", 4_242_000: "4.2 MB", 12_345: "12 kB", 3: "1 kB"}
    assert {size: human_size(size) for size in sizes} == sizes


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("  Downloading a-1-py3-none-any.whl (1.2 MB)", "a 1 (1.2 MB)"),
        ("  Using cached a-1-py3-none-any.whl (12 kB)", "a 1 (12 kB)"),
        ("Processing /no/such/a-1-py3-none-any.whl (from -r x.txt (line 3))", "a 1"),
        ("Processing file:///no/such/a-1%2Bcpu-py3-none-any.whl", "a 1+cpu"),
        ("  Downloading https://x.example/a-1-py3-none-any.whl (2.0 GB)", "a 1 (2.0 GB)"),
        ("  Downloading a-1-py3-none-any.whl.metadata (1.1 kB)", ""),
        ("Collecting a==1 (from -r x.txt (line 1))", ""),
    ],
)
def test_lines_of_pip(line: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines of several pips, each package shown once."""
    counter = download._Counter(3, Progress())
    counter.line(line)
    counter.line(line)
    assert capsys.readouterr().err == (f"[1/3] {shown}\n" if shown else "")
