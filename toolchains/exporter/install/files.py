"""Files that Bazel downloads for an install, and where it puts them.

A lock has hashes of a package's files for several platforms. The installer lists the packages that
it needs files of (`install --needed`), Bazel finds and downloads one of each to
`<folder>/<package>/<name>`, and the installer takes them from there (`--files`), by hash. It opens
no connection itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from .errors import InstallError
from .locks import Requirement


class MissingFilesError(InstallError):
    """Files are needed that were not handed over."""


def needed(requirements: Iterable[Requirement]) -> list[dict[str, object]]:
    """The packages of requirements for Bazel: "requirement", and "sha256" of possible files."""
    return [
        {"requirement": f"{r.name}=={r.version}", "sha256": sorted(r.hashes)} for r in requirements
    ]


def downloaded(folder: Path) -> dict[str, Path]:
    """The files in `<folder>/<package>/<name>`: sha256 to path."""
    return {_sha256(path): path.absolute() for path in sorted(folder.glob("*/*"))}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of(requirement: Requirement, files: Mapping[str, Path]) -> Path:
    """The file of a requirement, of files by sha256; raises MissingFilesError."""
    for sha256 in sorted(requirement.hashes & files.keys()):
        return files[sha256]
    raise MissingFilesError(
        f"{requirement.name}=={requirement.version}: file not found: got {len(files)} files, "
        "expected one of the lock's. Hand it over with --files; `--needed` lists all."
    )
