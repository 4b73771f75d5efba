"""Contents of archives: names, data and modes, independent of the files on disk."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from etbuild.errors import BuildError, listed
from etlink.json_file import is_plain_path


@dataclass(frozen=True)
class Entry:
    """One file of an archive.

    Attributes:
        name: path in the archive, with slashes.
        source: the file, or its contents.
        executable: whether it can be run. Not taken from the file: Bazel makes all outputs so.
    """

    name: str
    source: Path | bytes
    executable: bool = False

    @property
    def mode(self) -> int:
        """The permissions that it gets."""
        return 0o755 if self.executable else 0o644

    def size(self) -> int:
        """Bytes of its contents."""
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def open(self) -> BinaryIO:
        """Its contents, to be read once."""
        return io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb")


def tree(directory: Path, prefix: str = "", executables: Iterable[str] = ()) -> list[Entry]:
    """The files of a directory; links are followed.

    Args:
        directory: where they are.
        prefix: folder in the archive.
        executables: paths in the directory of files that can be run.

    Raises:
        BuildError: there is no such directory, it is empty, or an executable is not in it.
    """
    if not directory.is_dir():
        raise BuildError(f"{directory} is not a directory.")
    paths: dict[str, Path] = {}
    for folder, folders, names in os.walk(directory, followlinks=True):
        folders.sort()
        for name in names:
            path = Path(folder, name)
            paths[path.relative_to(directory).as_posix()] = path
    programs = frozenset(executables)
    missing = sorted(programs - paths.keys())
    if missing:
        raise BuildError(
            f"{directory}: executables not found: {', '.join(missing)}. Available: "
            f"{listed(sorted(paths))}."
        )
    if not paths:
        raise BuildError(f"{directory}: no files found.", "An archive needs at least one file.")
    folder = prefix.rstrip("/") + "/" if prefix else ""
    return [Entry(folder + name, path, name in programs) for name, path in sorted(paths.items())]


def check_name(name: str) -> None:
    """Fails for a name that does not lead to a file below a folder, on any system.

    Raises:
        BuildError: it does not.
    """
    if not is_plain_path(name):
        raise BuildError(
            f"{json.dumps(name)} cannot name a file in an archive: expected folders and a file "
            'name with slashes between them, without "..".'
        )


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Entries sorted by name.

    Raises:
        BuildError: a name occurs twice, leaves the archive, or is a folder of another.
    """
    ordered = sorted(entries, key=lambda entry: entry.name)
    names = {entry.name for entry in ordered}
    for before, entry in zip([None, *ordered], ordered, strict=False):
        if before and before.name == entry.name:
            raise BuildError(
                f'Two files of an archive are named "{entry.name}": '
                f"{_origin(before)} and {_origin(entry)}.",
                "Rename one of them, or leave it out.",
            )
        check_name(entry.name)
        parts = entry.name.split("/")
        inside = ["/".join(parts[:end]) for end in range(1, len(parts))]
        for folder in inside:
            if folder in names:
                raise BuildError(
                    f'An archive cannot hold both a file "{folder}" and "{entry.name}".',
                    "Rename one of them.",
                )
    return ordered


def _origin(entry: Entry) -> str:
    return "one that the bundler writes" if isinstance(entry.source, bytes) else str(entry.source)
