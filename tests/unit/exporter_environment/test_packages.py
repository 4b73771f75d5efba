"""Packages of locks: where they come from, what is shown, and what stays of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from fetch.index import FetchError
from helpers import MakeWheel, entry, sha256
from install import locks, packages
from install.errors import InstallError
from install.packages import Origin


def install(origin: Origin, *wheels: Path, index: str = "") -> packages.Installed:
    """Installs wheels by a lock of them into the folder `out`."""
    requirements = {r.name: r for wheel in wheels for r in locks.parse(entry(wheel), "lock.txt")}
    out = origin.scratch.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    return packages.install(origin, requirements, index, out)


def test_what_is_installed(
    origin: Origin, make_wheel: MakeWheel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
        installed = install(origin, demo, make_wheel("other-2.0", {"other.py": b""}))
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
    assert shown == ["[1/2] demo-pkg 1.0 (0.0 MB)", "[2/2] other 2.0 (0.0 MB)", "unpacking 0.0 MB"]


def test_torch_of_the_settings(origin: Origin, make_wheel: MakeWheel, tmp_path: Path) -> None:
    """A CPU build that find-links has: the index of CPU builds is not asked."""
    torch = make_wheel("torch-2.13.0+cpu", {"torch/__init__.py": b""})
    nowhere = (tmp_path / "nowhere").as_uri()
    installed = install(origin, torch, make_wheel("demo-1.0", {}), index=nowhere)
    assert installed.versions == {"demo": "1.0", "torch": "2.13.0+cpu"}


def test_torch_of_the_index(origin: Origin, make_wheel: MakeWheel, tmp_path: Path) -> None:
    """The settings lead to CUDA: torch alone comes from the index, by several hashes."""
    cpu = make_wheel("torch-2.13.0+cpu", {"torch/__init__.py": b"# CPU\n"})
    (tmp_path / "index/torch").mkdir(parents=True)
    cpu = cpu.rename(tmp_path / "index/torch" / cpu.name)
    (tmp_path / "index/torch/index.html").write_text(f'<a href="{cpu.name}">{cpu.name}</a>')
    make_wheel("torch-2.13.0", {"torch/__init__.py": b"# CUDA\n"})
    demo = make_wheel("demo-1.0", {})
    lock = entry(cpu).rstrip() + f" --hash=sha256:{'0' * 64}\n" + entry(demo)
    requirements = {r.name: r for r in locks.parse(lock, "lock.txt")}
    index = (tmp_path / "index").as_uri()
    installed = packages.install(origin, requirements, index, tmp_path / "out")
    assert installed.versions == {"demo": "1.0", "torch": "2.13.0+cpu"}
    assert (tmp_path / "out/torch/__init__.py").read_bytes() == b"# CPU\n"


def test_torch_nowhere(origin: Origin, make_wheel: MakeWheel, tmp_path: Path) -> None:
    """The message tells where torch was looked for."""
    torch = make_wheel("torch-2.13.0+cpu", {})
    lock = locks.parse(entry(torch), "lock.txt")
    torch.unlink()
    index = (tmp_path / "cpu").as_uri()
    with pytest.raises(FetchError) as caught:
        packages.install(origin, {"torch": lock[0]}, index, tmp_path / "out")
    message = str(caught.value)
    assert message.startswith(
        f"torch==2.13.0: no wheel for this machine found in {tmp_path}/wheels, "
    )
    assert f"{index}/torch/, expected sha256 {[*lock[0].hashes][0]}. Check the network" in message


def test_two_owners_of_a_file(origin: Origin, make_wheel: MakeWheel) -> None:
    """Two packages may share a file if it is the same."""
    a = make_wheel("a-1", {"shared/__init__.py": b"", "shared/a.py": b"1"})
    c = make_wheel("c-1", {"shared/__init__.py": b""})
    install(origin, a, c)
    b = make_wheel("b-1", {"shared/__init__.py": b"", "shared/a.py": b"2"})
    with pytest.raises(InstallError, match="two packages have different files") as caught:
        install(origin, a, b)
    message = str(caught.value)
    assert message.startswith("site-packages/shared/a.py: ")
    assert "got a and b, expected one owner" in message


@pytest.mark.parametrize("fault", ["exchanged", "truncated"])
def test_another_file(origin: Origin, make_wheel: MakeWheel, tmp_path: Path, fault: str) -> None:
    """A wheel that is not the locked one is named with both hashes, and nothing is installed."""
    wheel = make_wheel("a-1", {"a.py": b"x" * 1000})
    (requirement,) = locks.parse(entry(wheel), "lock.txt")
    data = wheel.read_bytes()
    wheel.write_bytes(data[:300] if fault == "truncated" else data + b"\0")
    with pytest.raises(FetchError) as caught:
        packages.install(origin, {"a": requirement}, "", tmp_path / "out")
    assert str(caught.value).startswith(
        f"a==1: the file is not the one in the lock: got {wheel.name} (sha256 {sha256(wheel)}), "
        f"expected sha256 {[*requirement.hashes][0]}. "
    )
    assert not (tmp_path / "out").exists()


def test_no_wheel(origin: Origin, make_wheel: MakeWheel, tmp_path: Path) -> None:
    """Sources are not installed."""
    wheel = make_wheel("a-1", {})
    wheel.rename(wheel.with_name("a-1.tar.gz"))
    (requirement,) = locks.parse(f"a==1 --hash=sha256:{'0' * 64}", "lock.txt")
    with pytest.raises(FetchError, match="a==1: no wheel for this machine found in "):
        packages.install(origin, {"a": requirement}, "", tmp_path / "out")


@pytest.mark.parametrize("name", ["../evil.py", "a-1.data/purelib/../../evil.py", "/tmp/evil.py"])
def test_members_that_lead_out(
    origin: Origin, make_wheel: MakeWheel, tmp_path: Path, name: str
) -> None:
    """Such a wheel is refused, even if the lock has its hash."""
    wheel = make_wheel("a-1", {name: b""})
    with pytest.raises(InstallError, match="a-1-py3-none-any.whl: malformed wheel: got the mem"):
        install(origin, wheel)
    assert not list(tmp_path.rglob("evil.py"))
    assert not Path("/tmp/evil.py").exists()


def test_links_in_a_wheel(origin: Origin, make_wheel: MakeWheel, tmp_path: Path) -> None:
    """They become files."""
    wheel = make_wheel("a-1", {"a/link": b"/etc/passwd"}, {"a/link": 0o120777})
    install(origin, wheel)
    assert not (tmp_path / "out/a/link").is_symlink()
    assert (tmp_path / "out/a/link").read_bytes() == b"/etc/passwd"


def test_no_wheel_at_all(origin: Origin, make_wheel: MakeWheel) -> None:
    """A file that is no archive, although it is the one of the lock."""
    wheel = make_wheel("a-1", {})
    wheel.write_bytes(b"no zip")
    with pytest.raises(InstallError, match="a-1-py3-none-any.whl: malformed wheel: File is not a"):
        install(origin, wheel)
