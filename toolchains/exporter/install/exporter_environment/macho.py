"""The macOS side of copying an interpreter: its libpython or framework library next to it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from .errors import InstallError

_SYSTEM = ("/usr/lib/", "/System/")


def dependencies(said: str) -> list[str]:
    """The libraries in the output of `otool -L`."""
    return re.findall(r"^\s+(\S+) \(compatibility version", said, re.MULTILINE)


def make_relative(original: Path, program: Path, lib: Path) -> None:
    """Copies the libraries that the program needs from outside the system and points it at them.

    Extension modules of the standard library find theirs by absolute paths where they have any:
    actions on macOS run where the environment was made.
    """
    for dependency in dependencies(_run(["otool", "-L", str(original)], original)):
        if dependency.startswith(_SYSTEM):
            continue
        path = dependency.replace("@executable_path", str(original.parent))
        path = path.replace("@loader_path", str(original.parent))
        path = path.replace("@rpath", str(original.parent.parent / "lib"))
        lib.mkdir(exist_ok=True)
        copied = lib / os.path.basename(path)
        shutil.copyfile(path, copied)
        copied.chmod(0o755)
        relative = f"@executable_path/../lib/{copied.name}"
        _run(["install_name_tool", "-id", relative, str(copied)], copied)
        _run(["codesign", "--force", "--sign", "-", str(copied)], copied)
        _run(["install_name_tool", "-change", dependency, relative, str(program)], program)
    _run(["codesign", "--force", "--sign", "-", str(program)], program)


def _run(command: list[str], where: Path) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise InstallError(
            f"`{command[0]}` failed while the interpreter was copied",
            where=where,
            got=getattr(error, "stderr", None) or error,
            todo="install Xcode's command line tools (`xcode-select --install`)",
        ) from error
    return done.stdout
