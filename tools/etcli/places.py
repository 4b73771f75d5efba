"""Paths that a user writes, and what else lies beside them."""

from __future__ import annotations

import os
from pathlib import Path

from etbuild.errors import BuildError
from etlink import manifest


def given(path: str) -> Path:
    """A path as the user means it: `bazel run` starts programs in another folder.

    Raises:
      BuildError: nothing is there.
    """
    place = Path(os.environ.get("BUILD_WORKING_DIRECTORY", ""), path)
    if not place.exists():
        raise BuildError(f"{place} is missing.", "Build it, or correct the path.")
    return place


def written(path: str) -> Path:
    """A path of an output, as the user means it."""
    return Path(os.environ.get("BUILD_WORKING_DIRECTORY", ""), path)


def manifest_beside(program: Path) -> Path | None:
    """The manifest that the linker writes beside a program, if it is there."""
    place = program.with_name(f"{program.name.removesuffix('.pte')}.manifest.json")
    return place if place.is_file() else None


def data_beside(program: Path) -> list[Path]:
    """Data files beside a program: those that its manifest names, else that of its own name."""
    names = [program.with_suffix(".ptd").name]
    place = manifest_beside(program)
    if place is not None:
        names = [entry["file"] for entry in manifest.read(place)["data"]]
    return [path for name in names if (path := program.with_name(name)).is_file()]
