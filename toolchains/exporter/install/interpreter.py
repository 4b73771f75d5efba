"""A private copy of a Python interpreter that runs anywhere with an empty environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from . import prune, relocation
from .errors import InstallError
from .packages import Origin

# The version that the installer runs with, and so the one that it copies.
RUNNING = ".".join(map(str, sys.version_info[:2]))
_OTHER = "Name another Python in the attribute `python` or in RULES_EXECUTORCH_PYTHON."
_DESCRIBE = """
import json, os, platform, sys, sysconfig
exe = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
print(json.dumps({
    "version": platform.python_version(),
    "executable": exe,
    "libdir": sys.platlibdir,
    "stdlib": [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")],
}))
"""
# Some Pythons are built without these.
_MODULES = ("bz2", "ctypes", "lzma", "ssl", "zlib")


@dataclass(frozen=True)
class Interpreter:
    """The answers of an interpreter about itself; paths are the original's, not a copy's."""

    version: str
    executable: Path
    libdir: str
    stdlib: tuple[Path, ...]
    # Of the copy's program and of its library's folder.
    name: str = f"python{RUNNING}"


def inspect(python: str) -> Interpreter:
    """Asks an interpreter what it consists of."""
    command = [python, "-I", "-c", _DESCRIBE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        entries = json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        text = (getattr(error, "stderr", "") or str(error)).strip()
        raise InstallError(f"{python}: the interpreter does not run: {text}. {_OTHER}") from error
    if entries["version"].rpartition(".")[0] != RUNNING:
        text = f"got Python {entries['version']}, expected Python {RUNNING}. {_OTHER}"
        raise InstallError(f"{python}: wrong version: {text}")
    return Interpreter(
        version=entries["version"],
        executable=Path(entries["executable"]),
        libdir=entries["libdir"],
        stdlib=tuple(dict.fromkeys(Path(p) for p in entries["stdlib"])),
    )


def copy(source: Interpreter, output: Path, origin: Origin) -> None:
    """Copies an interpreter and its standard library to `output` and makes it independent."""
    program = output / "bin" / source.name
    program.parent.mkdir(parents=True)
    shutil.copyfile(source.executable, program)
    program.chmod(0o755)
    library = output / source.libdir / source.name
    pruning = prune.load("stdlib")
    for folder in source.stdlib:
        _copy_tree(folder, library, pruning)
    try:
        if sys.platform == "darwin":
            relocation.relocate_macos(source.executable, program, output / "lib")
        else:
            modules = sorted((library / "lib-dynload").glob("*.so"))
            names = [f"lib-dynload/{module.name}" for module in modules]
            originals = [folder / name for folder in source.stdlib for name in names]
            loaded = relocation.loaded_libraries(source.executable, originals)
            relocation.relocate_linux(origin, loaded, [program, *modules], output / "lib")
    except subprocess.CalledProcessError as error:
        tool = os.path.basename(error.cmd[0])
        text = f"{error.cmd[-1]}: {tool} failed: {error.stderr.strip()}. {_OTHER}"
        raise InstallError(text) from error
    _check(program, output)


def _copy_tree(source: Path, target: Path, pruning: prune.Pruning) -> None:
    for folder, folders, files in os.walk(source, followlinks=True):
        relative = os.path.relpath(folder, source)
        relative = "" if relative == "." else relative + "/"
        folders[:] = sorted(f for f in folders if pruning.keeps(f"{relative}{f}/x"))
        for file in sorted(files):
            origin, destination = Path(folder, file), target / relative / file
            # Debian has dangling links to packages that are not installed.
            if not pruning.keeps(f"{relative}{file}") or not origin.is_file():
                continue
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin, destination)
            destination.chmod(0o755 if os.access(origin, os.X_OK) else 0o644)


def _check(program: Path, output: Path) -> None:
    """Runs the copy with nothing from outside: it must use its own library and have its modules."""
    code = f"import {', '.join(_MODULES)}, os; print(os.path.realpath(os.__file__))"
    command = [str(program), "-B", "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env={}, cwd="/")
    if done.returncode or not done.stdout.startswith(os.path.realpath(output) + os.sep):
        raise InstallError(
            f"{program}: the copy of the interpreter does not run by itself: got "
            f"{(done.stderr or done.stdout)[-800:].strip()!r}, expected its own standard library "
            f"with {', '.join(_MODULES)}. {_OTHER}"
        )
