"""Packages through pip: how it is called, what is shown, and what it leaves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from helpers import MakeWheel, entry, sha256
from install import locks, packages, prune
from install.errors import InstallError
from install.packages import torch_source
from install.pip_tool import Pip

OFFERS_CPU = """\
torch (2.15.0)
Available versions: 2.15.0, 2.14.1, 2.13.0+cpu, 2.13.0, 2.12.1+cpu
WARNING: pip index is currently an experimental command.
"""
OFFERS_CUDA = "torch (2.15.0)\nAvailable versions: 2.15.0, 2.13.0, 2.12.1+cpu\n"
OFFERS_OTHERS = "torch (2.15.0)\nAvailable versions: 2.15.0\n"
NOTHING = "ERROR: No matching distribution found for torch\n"
INDEX = "https://cpu.example/whl"


def install(pip: Pip, *wheels: Path, index: str = "") -> packages.Installed:
    """Installs wheels by a lock of them into the folder `out`."""
    requirements = {r.name: r for wheel in wheels for r in locks.parse(entry(wheel), "lock.txt")}
    out = pip.scratch.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    return packages.install(pip, requirements, index, out)


def test_what_is_installed(
    pip: Pip, make_wheel: MakeWheel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files in their places with plain modes; programs apart; one line per package."""
    demo = make_wheel(
        "demo_pkg-1.0",
        {
            "demo/__init__.py": b"",
            "demo/tool": b"",
            "demo/tests/test_a.py": b"",
            "demo_pkg-1.0.data/purelib/b.py": b"",
            "demo_pkg-1.0.data/scripts/native": b"\x7fELF",
            "demo_pkg-1.0.data/data/share/man/a.1": b"",
            "demo_pkg-1.0.dist-info/entry_points.txt": b"[console_scripts]\nrun = demo:main [x]\n",
        },
        {"demo/tool": 0o100755},
    )
    os.umask(0o077)
    try:
        installed = install(pip, demo, make_wheel("other-2.0", {"other.py": b""}))
    finally:
        os.umask(0o022)
    assert installed.versions == {"demo-pkg": "1.0", "other": "2.0"}
    assert installed.entry_points == {"run": "demo:main [x]"}
    assert installed.programs["native"].read_bytes() == b"\x7fELF"
    out = tmp_path / "out"
    modes = {str(p.relative_to(out)): p.stat().st_mode & 0o777 for p in out.rglob("*.*")}
    assert {p: m for p, m in modes.items() if ".dist-info" not in p} == {
        "b.py": 0o644,
        "demo/__init__.py": 0o644,
        "demo/tests/test_a.py": 0o644,
        "other.py": 0o644,
    }
    assert (out / "demo/tool").stat().st_mode & 0o777 == 0o755
    shown = capsys.readouterr().err.splitlines()
    assert shown == ["[1/2] demo-pkg 1.0", "[2/2] other 2.0", "unpacking"]


def test_torch_of_pips_own_settings(
    pip: Pip, make_wheel: MakeWheel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A CPU build that find-links has: the index of CPU builds is not asked."""
    torch = make_wheel("torch-2.13.0+cpu", {"torch/__init__.py": b""})
    nowhere = (tmp_path / "nowhere").as_uri()
    installed = install(pip, torch, make_wheel("demo-1.0", {}), index=nowhere)
    assert installed.versions == {"demo": "1.0", "torch": "2.13.0+cpu"}
    assert "torch 2.13.0: pip's own settings offer 2.13.0+cpu\n" in capsys.readouterr().err


def test_torch_of_the_index(
    pip: Pip, make_wheel: MakeWheel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """pip's own settings lead to CUDA: torch alone comes from the index, by several hashes."""
    cpu = make_wheel("torch-2.13.0+cpu", {"torch/__init__.py": b"# CPU\n"})
    (tmp_path / "index/torch").mkdir(parents=True)
    cpu = cpu.rename(tmp_path / "index/torch" / cpu.name)
    (tmp_path / "index/torch/index.html").write_text(f'<a href="{cpu.name}">{cpu.name}</a>')
    make_wheel("torch-2.13.0", {"torch/__init__.py": b"# CUDA\n"}).rename(
        tmp_path / "wheels/torch-2.13.0-cp311-cp311-any.whl"
    )
    demo = make_wheel("demo-1.0", {})
    lock = entry(cpu).rstrip() + f" --hash=sha256:{'0' * 64}\n" + entry(demo)
    requirements = {r.name: r for r in locks.parse(lock, "lock.txt")}
    index = (tmp_path / "index").as_uri()
    installed = packages.install(pip, requirements, index, tmp_path / "out")
    assert installed.versions == {"demo": "1.0", "torch": "2.13.0+cpu"}
    assert (tmp_path / "out/torch/__init__.py").read_bytes() == b"# CPU\n"
    assert f"using {index}\n" in capsys.readouterr().err


def test_torch_nowhere(pip: Pip, make_wheel: MakeWheel, tmp_path: Path) -> None:
    """The message tells where torch was looked for, and what else there is to do."""
    torch = make_wheel("torch-2.13.0+cpu", {})
    lock = locks.parse(entry(torch), "lock.txt")
    torch.unlink()
    index = (tmp_path / "empty").as_uri()
    with pytest.raises(InstallError) as caught:
        packages.install(pip, {"torch": lock[0]}, index, tmp_path / "out")
    message = str(caught.value)
    assert message.startswith(
        f"pip install of torch --index-url {index}: no wheel of torch==2.13.0 for this machine."
    )
    assert "name a mirror in `torch_index`" in message


def test_two_owners_of_a_file(pip: Pip, make_wheel: MakeWheel) -> None:
    """Two packages may share a file if it is the same."""
    a = make_wheel("a-1", {"shared/__init__.py": b"", "shared/a.py": b"1"})
    c = make_wheel("c-1", {"shared/__init__.py": b""})
    install(pip, a, c)
    b = make_wheel("b-1", {"shared/__init__.py": b"", "shared/a.py": b"2"})
    with pytest.raises(InstallError, match="two packages have different files") as caught:
        install(pip, a, b)
    message = str(caught.value)
    assert message.startswith("site-packages/shared/a.py: ")
    assert "got a and b, expected one owner" in message


def test_records_that_lead_elsewhere(make_wheel: MakeWheel, tmp_path: Path) -> None:
    """A wheel's own list of files moves nothing from outside of pip's folder."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    info = tmp_path / "target/a-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a\nVersion: 1\n")
    (info / "RECORD").write_text(f"../precious,,\n{precious},,\na/../../precious,,\n")
    packages.collect([info.parent], tmp_path / "far/out", prune.load("site-packages"))
    assert precious.read_text() == "precious"
    assert [path.name for path in tmp_path.rglob("prec*")] == ["precious"]


@pytest.mark.parametrize("fault", ["exchanged", "truncated"])
def test_another_file(pip: Pip, make_wheel: MakeWheel, tmp_path: Path, fault: str) -> None:
    """A wheel that is not the locked one is named with both hashes, and nothing is installed."""
    wheel = make_wheel("a-1", {"a.py": b"x" * 1000})
    (requirement,) = locks.parse(entry(wheel), "lock.txt")
    data = wheel.read_bytes()
    wheel.write_bytes(data[:300] if fault == "truncated" else data + b"\0")
    with pytest.raises(InstallError) as caught:
        packages.install(pip, {"a": requirement}, "", tmp_path / "out")
    message = str(caught.value)
    assert "a-1-py3-none-any.whl" in message
    assert "the file is not the one in the lock" in message, message
    assert f"got sha256 {sha256(wheel)}, expected {[*requirement.hashes][0]}." in message
    assert not (tmp_path / "out").exists()


def test_no_wheel(pip: Pip, make_wheel: MakeWheel, tmp_path: Path) -> None:
    """Sources are not installed."""
    wheel = make_wheel("a-1", {})
    wheel.rename(wheel.with_name("a-1.tar.gz"))
    (requirement,) = locks.parse(f"a==1 --hash=sha256:{'0' * 64}", "lock.txt")
    with pytest.raises(InstallError, match="no wheel of a==1 for this machine") as caught:
        packages.install(pip, {"a": requirement}, "", tmp_path / "out")
    assert "pip config list" in str(caught.value)


def test_an_index_that_cannot_be_reached(
    pip: Pip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said, with the reason that pip has."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    (requirement,) = locks.parse(f"a==1 --hash=sha256:{'0' * 64}", "lock.txt")
    with pytest.raises(InstallError) as caught:
        packages.install(pip, {"a": requirement}, "", tmp_path / "out")
    message = str(caught.value)
    assert message.startswith("pip install of a: the package index cannot be reached. Check the")
    assert message.count("refused") == 1, message


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("  Downloading a-1-py3-none-any.whl (1.2 MB)", ("a", "1", "(1.2 MB)")),
        ("  Using cached a-1-py3-none-any.whl (12 kB)", ("a", "1", "(12 kB)")),
        ("Processing /no/such-1/a-1-1build-py3-none-any.whl (from -r x (line 3))", ("a", "1", "")),
        ("Processing file:///no/a_b-1%2Bcpu-py3-none-any.whl", ("a_b", "1%2Bcpu", "")),
        ("  Downloading https://x.example/a-1-py3-none-any.whl (2.0 GB)", ("a", "1", "(2.0 GB)")),
        ("  Downloading a-1-py3-none-any.whl.metadata (1.1 kB)", None),
        ("Collecting a==1 (from -r x.txt (line 1))", None),
    ],
)
def test_lines_of_pip(line: str, shown: tuple[str, ...] | None) -> None:
    """The lines of several pips."""
    match = packages._FILE.fullmatch(line)
    assert (match and match.groups()) == shown


@pytest.mark.parametrize(
    ("answer", "platform", "index", "options", "hint"),
    [
        # A CPU build is there: an additional index that may not be reached is never asked.
        (OFFERS_CPU, "linux", INDEX, (), ""),
        (OFFERS_CPU, "linux", "", (), ""),
        # The registry's build for Linux is a CUDA build.
        (OFFERS_CUDA, "linux", INDEX, ("--index-url", INDEX), "mirror"),
        (OFFERS_CUDA, "linux", "", (), "no CUDA build"),
        # Its build for macOS is what is expected.
        (OFFERS_CUDA, "darwin", INDEX, (), ""),
        # Not there at all, or pip could not tell.
        (OFFERS_OTHERS, "darwin", INDEX, ("--index-url", INDEX), "mirror"),
        (OFFERS_OTHERS, "linux", INDEX, ("--index-url", INDEX), "mirror"),
        (NOTHING, "linux", INDEX, ("--index-url", INDEX), "mirror"),
    ],
)
def test_torch_source(
    answer: str, platform: str, index: str, options: tuple[str, ...], hint: str
) -> None:
    """The index of CPU builds is used where pip's own settings have none, and only there."""
    source = torch_source("2.13.0", answer, platform, index)
    assert source.options == options
    assert hint in source.hint
    assert bool(source.hint) == bool(hint)
    assert source.reason


def test_local_version_in_the_lock() -> None:
    """A lock may name the CPU build itself."""
    offers = "Available versions: 2.13.0+cpu\n"
    assert torch_source("2.13.0+cpu", offers, "linux", INDEX).options == ()
    assert torch_source("2.13.0+cpu", OFFERS_CUDA, "linux", INDEX).options


@pytest.mark.parametrize("name", ["../evil.py", "a-1.data/purelib/../../evil.py", "/tmp/evil.py"])
def test_members_that_lead_out(pip: Pip, make_wheel: MakeWheel, tmp_path: Path, name: str) -> None:
    """pip refuses such a wheel, even if the lock has its hash."""
    wheel = make_wheel("a-1", {name: b""})
    with pytest.raises(InstallError, match="pip install of a: pip failed"):
        install(pip, wheel)
    assert not list(tmp_path.rglob("evil.py"))
    assert not Path("/tmp/evil.py").exists()


def test_links_in_a_wheel(pip: Pip, make_wheel: MakeWheel, tmp_path: Path) -> None:
    """They become files."""
    wheel = make_wheel("a-1", {"a/link": b"/etc/passwd"}, {"a/link": 0o120777})
    install(pip, wheel)
    assert not (tmp_path / "out/a/link").is_symlink()
    assert (tmp_path / "out/a/link").read_bytes() == b"/etc/passwd"
