"""Takes files out of a zip: unzip ARCHIVE FOLDER FOLDER/FILE...; others stay in it."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path


def main(archive: str, folder: str, *wanted: str) -> None:
    """Writes the wanted files below the folder."""
    with zipfile.ZipFile(archive) as file:
        for path in map(Path, wanted):
            path.write_bytes(file.read(path.relative_to(folder).as_posix()))


if __name__ == "__main__":
    main(*sys.argv[1:])
