"""Paths that a user writes, and what else lies beside them."""

from __future__ import annotations

import os
from pathlib import Path

from etbuild.errors import BuildError
from etlink import manifest
from etlink.container import REBUILD
from etlink.json_file import read_object
from etlink.named_data import titles


def existing(path: str) -> Path:
    """A path as the user means it: `bazel run` starts programs in another folder.

    Raises:
      BuildError: it does not exist.
    """
    absolute = written(path)
    if not absolute.exists():
        raise BuildError(f"{absolute}: file not found.", "Build it, or correct the path.")
    return absolute


def written(path: str) -> Path:
    """A path of an output, as the user means it."""
    return Path(os.environ.get("BUILD_WORKING_DIRECTORY", ""), path)


def manifest_beside(program: Path) -> Path | None:
    """The manifest that the linker writes beside a program, if there is one."""
    path = manifest.beside(program)
    return path if path.is_file() else None


def data_beside(program: Path) -> list[Path]:
    """Data files beside a program: those that its manifest names, else the one of its own name."""
    names = [program.with_suffix(".ptd").name]
    path = manifest_beside(program)
    if path is not None:
        known = manifest.read(path)
        names = [name for p in known.programs.values() for name in p.data]
    return [file for name in names if (file := program.with_name(name)).is_file()]


def report_beside(program: Path) -> Path | None:
    """The report that the build writes beside a program, if there is one."""
    path = program.with_suffix(".report.json")
    return path if path.is_file() else None


def titles_beside(file: Path) -> dict[str, str]:
    """Keys to names of weights, from what the linker wrote beside a .pte or .ptd file."""
    path = manifest.beside(file)
    if file.suffix == ".ptd" and path.is_file():
        known = manifest.read(path).files
        return titles(known[file.name].keys) if file.name in known else {}
    summary = file.with_name(f"{file.stem}.link.json")
    if file.suffix != ".pte" or not summary.is_file():
        return {}
    found = read_object(summary, "is not a summary of a program", REBUILD).get("titles")
    return {str(key): str(title) for key, title in (found or {}).items()}
