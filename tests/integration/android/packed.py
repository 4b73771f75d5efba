"""Paths of the tests' files in the runfiles."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path("tests/integration/android")
TOOLS = Path("toolchains/android/ready_made")


def say(*command: str | Path) -> str:
    """The output of a program, which must succeed."""
    done = subprocess.run(
        [str(Path(command[0]).absolute()), *map(str, command[1:])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def offsets(path: Path) -> dict[str, int]:
    """The offsets of the contents of a zip's entries."""
    offset_by_name = {}
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        for info in archive.infolist():
            file.seek(info.header_offset + 26)
            name, extra = struct.unpack("<HH", file.read(4))
            offset_by_name[info.filename] = info.header_offset + 30 + name + extra
    return offset_by_name


def page_sizes(path: Path) -> dict[str, int]:
    """For each library of a zip, the largest pages that all its segments allow."""
    sizes = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".so"):
                data = archive.read(name)
                (count,) = struct.unpack_from("<H", data, 56)
                rows = [struct.unpack_from("<IIQQQQQQ", data, 64 + 56 * i) for i in range(count)]
                sizes[name] = min(row[-1] for row in rows if row[0] == 1)
    return sizes


def manifest_of(path: Path) -> dict:
    """The manifest of an APK or AAR."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("assets/manifest.json"))


def ones(path: Path) -> Path:
    """Writes the inputs of ProgramsMain as a .npy file."""
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 16), }".ljust(117) + "\n"
    path.write_bytes(
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(head))
        + head.encode()
        + struct.pack("<f", 1) * 32
    )
    return path


def run_library(
    libraries: Path,
    arguments: list[str | Path],
    classes: Sequence[Path],
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs ProgramsMain in a Java of this machine, whose command line is UTF-8.

    Args:
      libraries: folder with the libraries of an APK or AAR.
      arguments: of ProgramsMain.
      classes: class path.
      environment: more variables.
    """
    command = [
        *(Path(os.environ["JAVA"]).absolute(), "--enable-native-access=ALL-UNNAMED"),
        f"-Djava.library.path={libraries}",
        *("-cp", ":".join(map(str, classes)), "ProgramsMain", *arguments),
    ]
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={"LC_ALL": "C.UTF-8", "LD_LIBRARY_PATH": str(libraries), **(environment or {})},
    )
