"""Prints the sha256 of a folder's files, of their paths and contents.

`python tree_digest.py FOLDER`

Links are followed, so that neither the folder's path nor how it was put together matters.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def digest(folder: Path) -> str:
    """The sha256 of the sorted lines `<sha256 of a file>  <path>`."""
    files = sorted(_files(folder), key=lambda file: file.relative_to(folder).as_posix())
    total = hashlib.sha256()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as executor:
        for file, sha256 in zip(files, executor.map(_sha256, files), strict=True):
            total.update(f"{sha256}  {file.relative_to(folder).as_posix()}\n".encode())
    return total.hexdigest()


def _files(folder: Path, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """The files in a folder, also behind links; a link to a folder that it lies in ends there."""
    real = os.path.realpath(folder)
    if real in above:
        return
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, (*above, real))
        elif entry.is_file():
            yield entry


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


if __name__ == "__main__":
    try:
        print(digest(Path(sys.argv[1])))
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
