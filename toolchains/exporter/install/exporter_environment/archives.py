"""Reading wheels: where each member goes, and a refusal of members that would go anywhere else."""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import InstallError

_DATA = re.compile(r"^[^/]+\.data/(purelib|platlib|scripts|headers|data)/(.+)$")
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
        or any(part in ("", ".", "..") for part in parts)
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
    except (zipfile.BadZipFile, OSError) as error:
        raise InstallError(
            "a downloaded wheel can't be read",
            where=wheel.name,
            got=str(error),
            wanted="a whole zip archive",
            todo="fetch again; the download may have been cut short",
        ) from error
    for info in members:
        if info.is_dir():
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
            files[path] = member
        elif kind == "scripts":
            scripts[path] = member
    return Contents(tuple(files.values()), tuple(scripts.values()))


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
