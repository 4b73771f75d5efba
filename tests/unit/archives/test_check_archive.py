"""The check of archives before Bazel unpacks them."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
sys.path.insert(0, str(Path(__file__).absolute().parents[3] / "toolchains" / "exporter"))

from check_archive import Member, Refused, check, check_members  # noqa: E402


def file(name: str) -> Member:
    return Member(name, "file", 1)


@pytest.mark.parametrize(
    "members",
    [
        [],
        [file("a"), file("b/c"), Member("b/", "folder"), Member("b", "folder")],
        [Member("./", "folder"), file("./a"), Member(".", "folder")],
        [file("a/b"), Member("a/c/d", "link", 0, "../b"), Member("e", "link", 0, "a/b")],
        [file("a/b"), Member("c", "hard link", 0, "./a/b")],
        [file("..."), file("a..b/c.."), file("-rf"), file("ü")],
    ],
)
def test_archives_that_are_taken(members: list[Member]) -> None:
    check_members(members, 100)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([file("../a")], '"../a" is a path that leads out of it'),
        ([file("a/../../b")], "is a path that leads out of it"),
        ([file("a/../b")], "is a path that leads out of it"),
        ([file("/a")], '"/a" is a path that leads out of it'),
        ([file("a\\..\\b")], "is a path that leads out of it"),
        ([file("a\0b")], "is a path that leads out of it"),
        ([file("")], '"" is a path that leads out of it'),
        ([Member("..", "folder")], "is a path that leads out of it"),
        ([file("a"), file("a")], 'it has "a" twice'),
        ([file("a"), file("./a")], 'it has "./a" twice'),
        ([Member("a", "link", 0, "b"), file("a")], 'it has "a" twice'),
        ([Member("a", "link", 0, "b"), Member("a", "folder")], 'it has "a" twice'),
        ([file("a"), file("a/b")], '"a/b" lies in "a", which is a file'),
        ([Member("a", "link", 0, "b"), file("a/c")], '"a/c" lies in "a", which is a link'),
        ([file("a/c"), Member("a", "link", 0, "b")], '"a/c" lies in "a", which is a link'),
        ([Member("a", "link", 0, "/etc")], '"a" is a link to "/etc"'),
        ([Member("a", "link", 0, "../b")], '"a" is a link to "../b"'),
        ([Member("a/b", "link", 0, "../../c")], '"a/b" is a link to "../../c"'),
        ([Member("a", "hard link", 0, "b")], '"a" is a link to "b"'),
        ([Member("a", "hard link", 0, "../b")], '"a" is a path that leads out of it'),
        ([Member("b", "link", 0, "c"), Member("a", "hard link", 0, "b")], '"a" is a link to "b"'),
        ([Member("a", "no file (type b'3')")], "\"a\" is no file (type b'3')"),
        ([Member("a", "file", 2 << 30)], "too many bytes for an archive of 100"),
        ([Member(str(n), "file", 1 << 29) for n in range(3)], "too many bytes for an archive of"),
    ],
)
def test_archives_that_are_refused(members: list[Member], message: str) -> None:
    with pytest.raises(Refused) as caught:
        check_members(members, 100)
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", ["w", "w:gz", "w:xz", "w:bz2"])
def test_tar_archives(tmp_path: Path, kind: str) -> None:
    for name, data in (("a/b", b"x"), ("../b", b"x")):
        with tarfile.open(tmp_path / "a.tar", kind) as archive:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        if name == "a/b":
            check(str(tmp_path / "a.tar"))
    with pytest.raises(Refused, match='"../b" is a path that leads out of it'):
        check(str(tmp_path / "a.tar"))


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("a")
        info.type = kind
        archive.addfile(info)
    with pytest.raises(Refused, match='"a" is no file'):
        check(str(tmp_path / "a.tar"))


@pytest.mark.parametrize(
    ("mode", "data", "message"),
    [
        (0o120777, b"/etc/passwd", '"a/b" is a link to "/etc/passwd"'),
        (0o120777, b"x" * 5000, '"a/b" is a link of 5000 bytes'),
        (0o060644, b"", "no file"),
    ],
)
def test_zip_archives(tmp_path: Path, mode: int, data: bytes, message: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("a/b")
        info.external_attr = mode << 16
        archive.writestr(info, data)
    with pytest.raises(Refused, match=message):
        check(str(tmp_path / "a.zip"))


@pytest.mark.parametrize("data", [b"", b"PK\3\4", b"\x1f\x8b" + bytes(50), bytes(2000)])
def test_what_is_no_archive(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    if data == bytes(2000):
        # An empty tar archive.
        check(str(tmp_path / "a"))
        return
    with pytest.raises(Refused, match="it cannot be read: "):
        check(str(tmp_path / "a"))
