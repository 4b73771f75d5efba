"""Which library search path a copied program or library needs, and setting it with patchelf."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

from .elf import Dynamic
from .errors import InstallError

# The C library and its loader have to be the machine's own: they belong to its kernel and to each
# other. The C++ run-time libraries as well, for everything in site-packages uses those.
_SYSTEM = (
    "ld-linux",
    "linux-vdso",
    "libc.so",
    "libm.so",
    "libdl.so",
    "libpthread.so",
    "librt.so",
    "libutil.so",
    "libresolv.so",
    "libnsl.so",
    "libanl.so",
    "libmvec.so",
    "libgcc_s.so",
    "libstdc++.so",
)


def is_system(soname: str) -> bool:
    """Whether a library is taken from the machine and never copied."""
    return soname.startswith(_SYSTEM)


def search_path(dynamic: Dynamic, copied: Collection[str], to_lib: str) -> str | None:
    """The RPATH that a copied file must get, or None if it is right as it is.

    `copied` are the sonames of the libraries copied into lib/, `to_lib` is lib/ seen from the file,
    such as `$ORIGIN/../lib`. A RUNPATH is replaced by an RPATH, since only that one also counts for
    the libraries of extension modules that are loaded later.
    """
    uses = any(name in copied for name in dynamic.needed)
    present = [part for part in (dynamic.rpath or dynamic.runpath).split(":") if part]
    stray = any(not part.startswith("$ORIGIN") for part in present)
    if dynamic.rpath and not dynamic.runpath and to_lib in present and not stray:
        return None
    if uses or stray:
        return to_lib
    return None


def patch(patchelf: Path, changes: Mapping[Path, str]) -> None:
    """Writes RPATHs into files, one patchelf process per RPATH."""
    by_path: dict[str, list[str]] = defaultdict(list)
    for file, path in sorted(changes.items()):
        by_path[path].append(str(file))
    for path, files in by_path.items():
        done = subprocess.run(
            [str(patchelf), "--force-rpath", "--set-rpath", path, *files],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise InstallError(
                "patchelf could not change the library search path of the copied interpreter",
                where=f"{len(files)} files, such as {files[0]}",
                got=done.stderr.strip(),
                wanted=f"RPATH {path}",
                todo="name another Python in the attribute `python` or in RULES_EXECUTORCH_PYTHON",
            )
