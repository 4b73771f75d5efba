"""Where the files of the tests are in the runfiles."""

from __future__ import annotations

import struct
import subprocess
import zipfile
from pathlib import Path

HERE = Path("tests/integration/android")
TOOLS = Path("toolchains/android/ready_made")


def say(*command: str | Path) -> str:
    """What a program prints; it must succeed."""
    done = subprocess.run(
        [str(Path(command[0]).absolute()), *map(str, command[1:])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def offsets(path: Path) -> dict[str, int]:
    """Where the contents of a zip's entries begin."""
    found = {}
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        for info in archive.infolist():
            file.seek(info.header_offset + 26)
            name, extra = struct.unpack("<HH", file.read(4))
            found[info.filename] = info.header_offset + 30 + name + extra
    return found
