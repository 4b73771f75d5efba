"""Refuses archives whose members Bazel would unpack outside of the target folder.

`python check_archive.py ARCHIVE`: exit code 0, or 1 and a sentence.

Bazel 7 follows `..` in names of members, and writes through hard links to files outside.
"""

from __future__ import annotations

import posixpath
import stat
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

# How many times larger than the archive its files may be, and the size that is always allowed.
_MOST_GROWTH = 200
_ALWAYS = 1 << 30
_LONGEST_LINK = 4096
_ENCRYPTED = 0x1
_UNREADABLE = (
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


class Refused(Exception):
    """An archive is refused; the message is half a sentence."""


@dataclass(frozen=True)
class Member:
    """A member of an archive.

    Attributes:
      name: as in the archive.
      kind: "file", "folder", "link", "hard link", or a description of another kind.
      size: unpacked bytes.
      target: of a link.
    """

    name: str
    kind: str
    size: int = 0
    target: str = ""


def check(path: str) -> None:
    """Checks an archive.

    Raises:
      Refused: it is not an archive, is damaged, or a member would be written outside of the
        target folder, over another member, or with too many bytes.
    """
    try:
        is_zip = zipfile.is_zipfile(path)
        members = list(_of_zip(path) if is_zip else _of_tar(path))
        with open(path, "rb") as file:
            size = file.seek(0, 2)
    except _UNREADABLE as error:
        raise Refused(f"it cannot be read: {error}") from error
    check_members(members, size)


def check_members(members: Iterable[Member], size: int) -> None:
    """The same for the members of an archive of `size` bytes."""
    kinds: dict[str, str] = {}
    left = max(_MOST_GROWTH * size, _ALWAYS)
    for member in members:
        name = _plain(member.name, member.name)
        left -= member.size
        if left < 0:
            raise Refused(f"its members have too many bytes for an archive of {size}")
        if member.kind not in ("file", "folder", "link", "hard link"):
            raise Refused(f'"{member.name}" is {member.kind}')
        if member.kind == "folder" and kinds.get(name, "folder") == "folder":
            kinds[name] = "folder"
            continue
        if name in kinds:
            raise Refused(f'it has "{member.name}" twice')
        kinds[name] = member.kind
        if member.kind == "hard link":
            # Only to an earlier file of the archive.
            if kinds.get(_plain(member.target, member.name)) not in ("file", "hard link"):
                raise Refused(f'"{member.name}" is a link to "{member.target}"')
        elif member.kind == "link":
            inside = posixpath.join(posixpath.dirname(name), member.target)
            _plain(posixpath.normpath(inside), member.name, member.target)
            if member.target.startswith("/"):
                raise Refused(f'"{member.name}" is a link to "{member.target}"')
    for name in kinds:
        parts = name.split("/")
        for end in range(1, len(parts)):
            folder = "/".join(parts[:end])
            if kinds.get(folder, "folder") != "folder":
                raise Refused(f'"{name}" lies in "{folder}", which is a {kinds[folder]}')


def _plain(name: str, member: str, target: str = "") -> str:
    """A name without empty and "." parts; refuses one that leads outside."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    leads = name.startswith("/") or ".." in parts or "\\" in name or "\0" in name
    if leads or (not parts and not target and member not in (".", "./")):
        what = f'a link to "{target}"' if target else "a path that leads out of it"
        raise Refused(f'"{member}" is {what}')
    return "/".join(parts)


def _of_zip(path: str) -> Iterable[Member]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.flag_bits & _ENCRYPTED:
                raise Refused(f'"{info.filename}" is encrypted')
            mode = info.external_attr >> 16
            if stat.S_ISLNK(mode):
                if info.file_size > _LONGEST_LINK:
                    raise Refused(f'"{info.filename}" is a link of {info.file_size} bytes')
                target = archive.read(info).decode(errors="replace")
                yield Member(info.filename, "link", info.file_size, target)
            elif info.filename.endswith("/"):
                yield Member(info.filename, "folder")
            elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
                yield Member(info.filename, "file", info.file_size)
            else:
                yield Member(info.filename, f"no file (mode {mode:o})")


def _of_tar(path: str) -> Iterable[Member]:
    # As a stream: detects a bomb before all of it is unpacked.
    with tarfile.open(path, "r|*") as archive:
        for info in archive:
            if info.isfile():
                yield Member(info.name, "file", info.size)
            elif info.isdir():
                yield Member(info.name, "folder")
            elif info.issym():
                yield Member(info.name, "link", 0, info.linkname)
            elif info.islnk():
                yield Member(info.name, "hard link", 0, info.linkname)
            else:
                yield Member(info.name, f"no file (type {info.type!r})")


if __name__ == "__main__":
    try:
        check(sys.argv[1])
    except Refused as refused:
        sys.exit(f"{refused}.")
