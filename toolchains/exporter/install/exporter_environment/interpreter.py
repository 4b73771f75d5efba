"""A private copy of a Python interpreter that runs from any place with an empty environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import elf, macho, prune, relocation
from .errors import InstallError

# The version of Python that the installer runs with, and so the one that it copies.
RUNNING = ".".join(map(str, sys.version_info[:2]))

_FACTS = """
import json, os, platform, sys, sysconfig
exe = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
print(json.dumps({
    "version": platform.python_version(),
    "short": "%d.%d" % sys.version_info[:2],
    "executable": exe,
    "libdir": sys.platlibdir,
    "stdlib": [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")],
    "dynload": [p for p in sys.path if os.path.basename(p) == "lib-dynload"],
}))
"""

# Loads what is named on standard input and tells what the process has mapped.
_MAPPED = """
import ctypes, sys
for line in sys.stdin.read().splitlines():
    try:
        ctypes.CDLL(line)
    except OSError:
        pass
print(open("/proc/self/maps").read())
"""


@dataclass(frozen=True)
class Interpreter:
    """What an interpreter says about itself; paths are those of the original, not of a copy."""

    version: str
    short: str
    executable: Path
    libdir: str
    stdlib: tuple[Path, ...]
    dynload: tuple[Path, ...]

    @property
    def executable_name(self) -> str:
        """Its name in a copy, which is also the name of its library's folder: python3.11."""
        return f"python{self.short}"


def inspect(python: str) -> Interpreter:
    """Asks an interpreter what it consists of."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", _FACTS],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        facts = json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        raise InstallError(
            "the interpreter that the environment is made from doesn't run",
            where=python,
            got=getattr(error, "stderr", None) or error,
            wanted=f"Python {RUNNING}",
            todo="name another one in the attribute `python` or in RULES_EXECUTORCH_PYTHON",
        ) from error
    if facts["short"] != RUNNING:
        raise InstallError(
            "the interpreter that the environment is made from is of another version",
            where=python,
            got=facts["version"],
            wanted=f"Python {RUNNING}",
            todo="name another one in the attribute `python` or in RULES_EXECUTORCH_PYTHON",
        )
    return Interpreter(
        version=facts["version"],
        short=facts["short"],
        executable=Path(facts["executable"]),
        libdir=facts["libdir"],
        stdlib=tuple(dict.fromkeys(Path(p) for p in facts["stdlib"])),
        dynload=tuple(Path(p) for p in facts["dynload"]),
    )


def copy(source: Interpreter, place: Path, get_patchelf: Callable[[], Path]) -> None:
    """Copies an interpreter and its standard library to `place` and makes it independent.

    `get_patchelf` is called only when a file's library search path has to change.
    """
    name = source.executable_name
    program = place / "bin" / name
    program.parent.mkdir(parents=True)
    shutil.copyfile(source.executable, program)
    program.chmod(0o755)
    library = place / source.libdir / name
    pruning = prune.load("stdlib")
    for folder in source.stdlib:
        _copy_tree(folder, library, pruning)
    if not (library / "lib-dynload").is_dir():
        for folder in source.dynload:
            _copy_tree(folder, library / "lib-dynload", pruning, "lib-dynload/")
    if sys.platform == "darwin":
        macho.make_relative(source.executable, program, place / "lib")
    else:
        _make_relative(source, program, library, place / "lib", get_patchelf)
    _check(program, place)


def _copy_tree(source: Path, target: Path, pruning: prune.Pruning, prefix: str = "") -> None:
    for folder, folders, files in os.walk(source, followlinks=True):
        relative = os.path.relpath(folder, source)
        relative = "" if relative == "." else relative + "/"
        folders[:] = sorted(f for f in folders if pruning.keeps(f"{prefix}{relative}{f}/x"))
        for file in sorted(files):
            if not pruning.keeps(f"{prefix}{relative}{file}"):
                continue
            origin = Path(folder, file)
            if not origin.is_file():  # a dangling link, as of Debian's packages that are not there
                continue
            destination = target / relative / file
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin, destination)
            destination.chmod(0o755 if os.access(origin, os.X_OK) else 0o644)


def _make_relative(
    source: Interpreter, program: Path, library: Path, lib: Path, get_patchelf: Callable[[], Path]
) -> None:
    """Copies the shared libraries that come from outside and makes everything find the copies."""
    modules = sorted((library / "lib-dynload").glob("*.so"))
    originals = [folder / module.name for module in modules for folder in _dynload(source)]
    libraries = _libraries(source, [path for path in originals if path.is_file()])
    files = {program: "$ORIGIN/../" + lib.name}
    files |= {m: "$ORIGIN/" + os.path.relpath(lib, m.parent) for m in modules}
    dynamics = {path: elf.read(path) for path in files}
    copied: dict[str, Path] = {}
    waiting = [name for dynamic in dynamics.values() for name in dynamic.needed]
    while waiting:
        soname = waiting.pop()
        if soname in copied or relocation.is_system(soname) or soname not in libraries:
            continue
        copied[soname] = lib / soname
        lib.mkdir(exist_ok=True)
        shutil.copyfile(libraries[soname], copied[soname])
        copied[soname].chmod(0o755)
        files[copied[soname]] = "$ORIGIN"
        dynamics[copied[soname]] = elf.read(copied[soname])
        waiting += dynamics[copied[soname]].needed
    changes: dict[Path, str] = {}
    for path, to_lib in files.items():
        wanted = relocation.search_path(dynamics[path], copied, to_lib)
        if wanted is not None:
            changes[path] = wanted
    if changes:
        relocation.patch(get_patchelf(), changes)


def _dynload(source: Interpreter) -> tuple[Path, ...]:
    return (*source.dynload, *(folder / "lib-dynload" for folder in source.stdlib))


def _libraries(source: Interpreter, modules: list[Path]) -> dict[str, Path]:
    """Where the dynamic loader finds the libraries of the original's modules: soname → file."""
    done = subprocess.run(
        [str(source.executable), "-I", "-c", _MAPPED],
        input="\n".join(str(module) for module in modules),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Path] = {}
    for path in sorted(set(re.findall(r"\s(/\S+\.so[.\d]*)$", done.stdout, re.MULTILINE))):
        try:
            soname = elf.read(Path(path)).soname or Path(path).name
        except (OSError, ValueError):
            continue
        found[soname] = Path(path)
    return found


def _check(program: Path, place: Path) -> None:
    """Runs the copy with nothing from outside: it must use its own library and have its modules."""
    code = (
        "import ctypes, hashlib, json, lzma, bz2, zlib, os, ssl, struct, sys, sysconfig\n"
        "print(os.path.realpath(os.__file__))"
    )
    done = subprocess.run(
        [str(program), "-B", "-I", "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={},
        cwd="/",
        check=False,
    )
    if done.returncode or not done.stdout.startswith(os.path.realpath(place) + os.sep):
        raise InstallError(
            "the private copy of the interpreter doesn't run by itself",
            where=program,
            got=(done.stderr.strip() or done.stdout.strip())[-800:],
            wanted="a standard library below its own folder, with ctypes, lzma, bz2, zlib and ssl",
            todo="name a Python with these modules in the attribute `python` or in\n"
            "RULES_EXECUTORCH_PYTHON",
        )
