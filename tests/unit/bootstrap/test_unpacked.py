"""Debian packages that would write outside of the tree that they are unpacked to."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from bootstrap import debian
from bootstrap.console import BootstrapError
from bootstrap.unpacked import merge

needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="this machine has no dpkg")


def tar(members: Sequence[tarfile.TarInfo | tuple[str, bytes]]) -> bytes:
    """A tar archive, gzipped, of files and of other members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def deb(path: Path, *members: tarfile.TarInfo | tuple[str, bytes]) -> Path:
    """A Debian package that holds these."""
    control = "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: a\n"
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": tar([("control", control.encode())]),
        "data.tar.gz": tar(members),
    }
    data = b"!<arch>\n"
    for name, contents in parts.items():
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(contents):<10}`\n"
        data += head.encode() + contents + b"\n" * (len(contents) % 2)
    path.write_bytes(data)
    return path


def other(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A member that is no file."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@needs_dpkg
def test_packages_are_put_together(tmp_path: Path) -> None:
    """Directories of several packages become one; links inside of the tree are followed."""
    first = deb(
        tmp_path / "a.deb", ("./usr/lib/a.so", b"a"), other("./lib", tarfile.SYMTYPE, "usr/lib")
    )
    second = deb(tmp_path / "b.deb", ("./usr/lib/b.so", b"b"), ("./lib/c.so", b"c"))
    debian.unpack([first, second], tmp_path / "out")
    lib = tmp_path / "out/usr/lib"
    assert {p.name: p.read_bytes() for p in lib.iterdir()} == {
        "a.so": b"a",
        "b.so": b"b",
        "c.so": b"c",
    }
    assert os.readlink(tmp_path / "out/lib") == "usr/lib"
    assert not first.exists()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["lib", "usr"]


@needs_dpkg
@pytest.mark.parametrize("link", ["../elsewhere", "{tmp}/elsewhere"])
def test_a_link_of_another_package_leads_nowhere(tmp_path: Path, link: str) -> None:
    """One package brings a link that leads out, the other a file that would go through it."""
    (tmp_path / "elsewhere").mkdir()
    target = link.format(tmp=tmp_path)
    first = deb(tmp_path / "a.deb", other("./etc", tarfile.SYMTYPE, target))
    second = deb(tmp_path / "b.deb", ("./etc/passwd", b"root"))
    with pytest.raises(BootstrapError) as caught:
        debian.unpack([first, second], tmp_path / "out")
    assert caught.value.reason == (
        f"b.deb would write through a link to {tmp_path}/elsewhere at etc"
    )
    assert list((tmp_path / "elsewhere").iterdir()) == []


@needs_dpkg
@pytest.mark.parametrize("name", ["../evil", "./a/../../evil", "/{tmp}/evil"])
def test_paths_that_leave(tmp_path: Path, name: str) -> None:
    """They are refused, or lose what would lead them out."""
    archive = deb(tmp_path / "a.deb", (name.format(tmp=tmp_path), b"evil"))
    try:
        debian.unpack([archive], tmp_path / "out")
    except BootstrapError as error:
        assert "a.deb" in error.reason
    assert not (tmp_path / "evil").exists()


@needs_dpkg
def test_a_link_and_a_file_through_it_in_one_package(tmp_path: Path) -> None:
    """dpkg's own tar makes links last, so that nothing goes through them."""
    (tmp_path / "elsewhere").mkdir()
    link = other("./d", tarfile.SYMTYPE, str(tmp_path / "elsewhere"))
    archive = deb(tmp_path / "a.deb", link, ("./d/evil", b"evil"))
    try:
        debian.unpack([archive], tmp_path / "out")
    except BootstrapError as error:
        assert "a.deb" in error.reason
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_pipes_are_refused(tmp_path: Path) -> None:
    """Neither pipes nor what else is no file."""
    (tmp_path / "in").mkdir()
    os.mkfifo(tmp_path / "in/pipe")
    with pytest.raises(BootstrapError, match=r"a\.deb holds a device, a pipe or a socket at pipe"):
        merge(tmp_path / "in", tmp_path / "out", "a.deb")


@pytest.mark.parametrize("file_first", [True, False])
def test_a_file_in_the_place_of_a_directory(tmp_path: Path, file_first: bool) -> None:
    """Two packages disagree."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    file, directory = ("one", "two") if file_first else ("two", "one")
    (tmp_path / file / "x").write_text("file")
    (tmp_path / directory / "x").mkdir()
    merge(tmp_path / "one", tmp_path / "out", "one.deb")
    with pytest.raises(BootstrapError, match=r"two\.deb has a (file|directory) where a "):
        merge(tmp_path / "two", tmp_path / "out", "two.deb")


@needs_dpkg
def test_a_damaged_package_is_named(tmp_path: Path) -> None:
    """Half of one."""
    archive = deb(tmp_path / "a.deb", ("./a", b"a" * 999))
    archive.write_bytes(archive.read_bytes()[:-60])
    with pytest.raises(BootstrapError, match=r"cannot unpack a\.deb:"):
        debian.unpack([archive], tmp_path / "out")
