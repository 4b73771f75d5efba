"""Unpacking wheels into site-packages: pruned, checked, and the same bytes every time."""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from . import archives, prune
from .errors import InstallError
from .locks import Requirement


@dataclass(frozen=True)
class Figures:
    """What the wheels held and what of it was unpacked."""

    files_before: int
    bytes_before: int
    files: int
    bytes: int


def check_hash(wheel: Path, requirement: Requirement) -> None:
    """Refuses a file whose hash is not one of the lock's."""
    with wheel.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got not in requirement.hashes:
        raise InstallError(
            f"the file of {requirement.name} is not one that the lock names",
            where=wheel.name,
            got=f"sha256 {got}",
            wanted=f"one of the lock's {len(requirement.hashes)} hashes",
            todo="fetch again; if it stays so, the package index serves other files than the one\n"
            "that the lock was made from",
        )


def unpack(
    wheels: Mapping[str, Path],
    requirements: Mapping[str, Requirement],
    place: Path,
    executor: Executor,
) -> Figures:
    """Unpacks wheels side by side into `place`, without what prune.toml leaves out."""
    pruning = prune.load("site-packages")
    found = {name: archives.contents(wheel) for name, wheel in wheels.items()}
    kept = {
        name: archives.Contents(tuple(m for m in c.files if pruning.keeps(m.path, name)), c.scripts)
        for name, c in found.items()
    }
    archives.check_overlaps(kept)
    place.mkdir(parents=True)
    jobs = [
        executor.submit(_unpack_one, wheels[name], requirements[name], kept[name].files, place)
        for name in sorted(wheels, key=lambda n: -wheels[n].stat().st_size)
    ]
    for job in jobs:
        job.result()
    before = [member for c in found.values() for member in c.files]
    after = [member for c in kept.values() for member in c.files]
    return Figures(len(before), sum(m.size for m in before), len(after), sum(m.size for m in after))


def _unpack_one(
    wheel: Path, requirement: Requirement, members: Iterable[archives.Member], place: Path
) -> None:
    check_hash(wheel, requirement)
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in members:
                write_member(archive, member, place)
    except (*archives.DAMAGED, RuntimeError, zlib.error) as error:
        raise InstallError(
            "a wheel is damaged",
            where=wheel.name,
            got=error,
            wanted="a whole zip archive",
            todo="fetch again; the download may have been cut short",
        ) from error


def write_member(archive: zipfile.ZipFile, member: archives.Member, place: Path) -> None:
    """Writes one file of a wheel below `place`."""
    target = os.path.join(place, member.path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with archive.open(member.name) as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    os.chmod(target, 0o755 if member.executable else 0o644)
