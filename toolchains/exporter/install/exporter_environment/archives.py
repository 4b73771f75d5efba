"""Reading wheels: where each member goes, and a refusal of members that would go anywhere else."""

from __future__ import annotations

import re
import stat
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import InstallError

_DATA = re.compile(r"^[^/]+\.data/(purelib|platlib|scripts|headers|data)/(.+)$")
_ENCRYPTED = 0x1
# What zipfile raises on archives whose tables are damaged.
DAMAGED = (
    EOFError,
    LookupError,
    NotImplementedError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
)
# Bytes, of a file system's.
_LONGEST_NAME = 255
# What deflate makes of zeros, and what a whole wheel may grow by: those of programs do by 3 to 10.
_MOST_OF_MEMBER = 1032
_MOST_OF_WHEEL = 100
_ALWAYS = 64 << 20
_REFUSED = "do not use this file: fetch again, and if it stays so, report the package to its index"


@dataclass(frozen=True)
class Member:
    """A file in a wheel: its name there, its path below site-packages, how it is."""

    name: str
    path: str
    executable: bool
    size: int
    crc: int


@dataclass(frozen=True)
class Contents:
    """What a wheel holds: files for site-packages, and programs from its scripts folder."""

    files: tuple[Member, ...]
    scripts: tuple[Member, ...]


def check_path(name: str, archive: object) -> str:
    """A member's name, when it is a plain relative path; an InstallError otherwise."""
    parts = name.split("/")
    bad = (
        not name
        or "\\" in name
        or "\0" in name
        or any(part in ("", ".", "..") or len(part.encode()) > _LONGEST_NAME for part in parts)
        or re.match(r"^[A-Za-z]:", name) is not None
    )
    if bad:
        raise InstallError(
            "a wheel holds a file whose path leaves the place it is unpacked to",
            where=archive,
            got=repr(name),
            wanted="a relative path without `..`",
            todo=_REFUSED,
        )
    return name


def contents(wheel: Path) -> Contents:
    """Lists a wheel's files and where they go."""
    files: dict[str, Member] = {}
    scripts: dict[str, Member] = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = archive.infolist()
    except (*DAMAGED, OSError) as error:
        raise InstallError(
            "a downloaded wheel can't be read",
            where=wheel.name,
            got=str(error),
            wanted="a whole zip archive",
            todo="fetch again; the download may have been cut short",
        ) from error
    check_sizes(members, wheel.stat().st_size, wheel.name)
    for info in members:
        # zipfile asks for the last letter of a name that may have none.
        if info.filename and info.is_dir():
            check_path(info.filename.rstrip("/"), wheel.name)
            continue
        name = check_path(info.filename, wheel.name)
        mode = info.external_attr >> 16
        if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
            raise InstallError(
                "a wheel holds something other than a file",
                where=wheel.name,
                got=f"{name!r} with mode {mode:o}",
                wanted="regular files",
                todo=_REFUSED,
            )
        data = _DATA.match(name)
        kind, path = (data[1], data[2]) if data else ("purelib", name)
        executable = kind == "scripts" or bool(mode & 0o111)
        member = Member(name, path, executable, info.file_size, info.CRC)
        if kind in ("purelib", "platlib"):
            _add(files, member, wheel.name)
        elif kind == "scripts":
            _add(scripts, member, wheel.name)
    _check_folders(files, wheel.name)
    return Contents(tuple(files.values()), tuple(scripts.values()))


def check_sizes(members: Sequence[zipfile.ZipInfo], size: int, archive: object) -> None:
    """Refuses an archive whose members say that they are larger than they can be.

    Args:
      members: of the archive.
      size: bytes of the archive.
      archive: its name, for messages.
    """
    packed = sum(info.compress_size for info in members)
    plain = sum(info.file_size for info in members)
    worst = max(members, key=lambda i: i.file_size / (i.compress_size + 1), default=None)
    if any(info.header_offset < 0 for info in members):
        got = "a member that begins before the archive"
    elif packed > size:
        got = f"members of {packed} bytes in an archive of {size}: they lie over each other"
    elif worst is not None and worst.file_size > _MOST_OF_MEMBER * worst.compress_size + 64:
        got = f"{worst.filename!r}, {worst.file_size} bytes out of {worst.compress_size}"
    elif plain > max(_MOST_OF_WHEEL * size, _ALWAYS):
        got = f"{plain} bytes out of {size}"
    else:
        encrypted = [info.filename for info in members if info.flag_bits & _ENCRYPTED]
        if not encrypted:
            return
        got = f"{encrypted[0]!r}, which is encrypted"
    raise InstallError(
        "a wheel is no archive of a package",
        where=archive,
        got=got,
        wanted="files whose sizes fit the archive's",
        todo=_REFUSED,
    )


def _add(found: dict[str, Member], member: Member, archive: object) -> None:
    if member.path in found:
        raise InstallError(
            "a wheel holds a file twice",
            where=archive,
            got=f"{found[member.path].name!r} and {member.name!r}",
            wanted=f"one file {member.path!r}",
            todo=_REFUSED,
        )
    found[member.path] = member


def _check_folders(files: Mapping[str, Member], archive: object) -> None:
    """Refuses a file that is a folder of another one."""
    for path in files:
        parts = path.split("/")
        for end in range(1, len(parts)):
            if "/".join(parts[:end]) in files:
                raise InstallError(
                    "a wheel holds a file that is a folder, too",
                    where=archive,
                    got=f"{'/'.join(parts[:end])!r} and {path!r}",
                    wanted="one of them",
                    todo=_REFUSED,
                )


def check_overlaps(wheels: Mapping[str, Contents]) -> None:
    """Refuses wheels that put different files at the same path: the order would decide."""
    owners: dict[str, tuple[str, Member]] = {}
    for wheel in sorted(wheels):
        for member in wheels[wheel].files:
            owner, other = owners.setdefault(member.path, (wheel, member))
            if owner != wheel and (other.size, other.crc) != (member.size, member.crc):
                raise InstallError(
                    "two packages have different files at the same path",
                    where=f"site-packages/{member.path}",
                    got=f"{owner} and {wheel}",
                    wanted="one owner",
                    todo="leave out one of the packages in the locks, or the path in prune.toml",
                )
