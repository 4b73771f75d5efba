"""Packages of locks: what is shown, and what stays of them."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import MakeWheel, entry, sha256
from install import locks, packages
from install.errors import InstallError
from install.files import MissingFilesError
from install.packages import Origin


def install(origin: Origin, *wheels: Path) -> packages.Installed:
    """Installs wheels by a lock of them into the folder `out`."""
    origin = replace(origin, files={sha256(wheel): wheel for wheel in wheels})
    requirements = {r.name: r for wheel in wheels for r in locks.parse(entry(wheel), "lock.txt")}
    out = origin.scratch.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    return packages.install(origin, requirements, out)


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


@pytest.mark.parametrize("fault", ["exchanged", "truncated", "none"])
def test_another_file(origin: Origin, make_wheel: MakeWheel, tmp_path: Path, fault: str) -> None:
    """A wheel that is not the locked one is none at all, and nothing is installed."""
    wheel = make_wheel("a-1", {"a.py": b"x" * 1000})
    (requirement,) = locks.parse(entry(wheel), "lock.txt")
    data = wheel.read_bytes()
    wheel.write_bytes(data[:300] if fault == "truncated" else data + b"\0")
    found = {} if fault == "none" else {sha256(wheel): wheel}
    with pytest.raises(MissingFilesError, match="^a==1: file not found: got [01] files, expected"):
        packages.install(replace(origin, files=found), {"a": requirement}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


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
