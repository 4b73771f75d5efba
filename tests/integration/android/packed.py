"""Where the files of the tests are in the runfiles."""

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


def program_arguments(apk: Path, folder: Path) -> list[str]:
    """The runner's arguments for all programs of an APK that was unpacked to a folder.

    Outputs go to a folder of the program's name in it.
    """
    arguments: list[str] = []
    for program in manifest_of(apk)["programs"]:
        arguments += ["--program", str(folder / "assets" / program["file"])]
        arguments += ["--manifest", str(folder / "assets" / program["manifest"])]
        arguments += ["--output", str(folder / program["name"])]
        for file in program["data"].values():
            arguments += ["--data", str(folder / "assets" / file)]
    return arguments


def run_in_java(
    folder: Path,
    arguments: list[str],
    environment: Mapping[str, str] | None = None,
    said: str = "",
) -> subprocess.CompletedProcess[str]:
    """Runs the native runner of an APK that was unpacked to a folder, in a Java of this machine.

    `said` is its input.
    """
    libraries = folder / "lib/x86_64"
    options = ["--enable-native-access=ALL-UNNAMED", f"-Djava.library.path={libraries}"]
    return java(
        [*options, "-cp", HERE / "host_main.jar", "rulesexecutorch.runner.HostMain", *arguments],
        {"LD_LIBRARY_PATH": str(libraries), **(environment or {})},
        said,
    )


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
    folder: Path,
    arguments: list[str],
    environment: Mapping[str, str] | None = None,
    classes: str = "",
) -> subprocess.CompletedProcess[str]:
    """Runs ProgramsMain with the classes and libraries of an AAR that was unpacked to a folder.

    `classes` replaces the class path.
    """
    libraries = folder / "jni/x86_64"
    classes = classes or f"{folder / 'classes.jar'}:{HERE / 'programs_main.jar'}"
    return java(
        [
            *("--enable-native-access=ALL-UNNAMED", f"-Djava.library.path={libraries}"),
            *("-cp", classes, "ProgramsMain", folder / "assets", *arguments),
        ],
        {"LD_LIBRARY_PATH": str(libraries), **(environment or {})},
    )


def java(
    words: Sequence[str | Path], environment: Mapping[str, str], said: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs a Java of this machine, whose command line is UTF-8."""
    command = [Path(os.environ["JAVA"]).absolute(), *words]
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        check=False,
        encoding="utf-8",
        input=said,
        env={"LC_ALL": "C.UTF-8", **environment},
    )
