"""The torch-free folder: what tools need that read and write .pte and .ptd files, and no more."""

from __future__ import annotations

import shutil
from pathlib import Path

from .errors import InstallError

# Packages of pure Python that come along; compiled accelerators are left out, all have a fallback.
_PACKAGES = ("flatbuffers", "jinja2", "markupsafe")
_GENERATED = "executorch/exir/_serialize/generated"


def make(packages: Path, place: Path) -> None:
    """Makes the folder `place` out of an unpacked site-packages."""
    missing = [p for p in (*_PACKAGES, _GENERATED) if not (packages / p).exists()]
    if missing:
        raise InstallError(
            "the torch-free folder can't be made from these packages",
            where=packages,
            got="missing: " + ", ".join(missing),
            wanted="executorch 1.5 or newer, flatbuffers, jinja2 and markupsafe",
            todo="add them to the lock, or set `lite = False` on the python_environment",
        )
    place.mkdir(parents=True)
    ignore = shutil.ignore_patterns("__pycache__", "*.so", "*.dylib", "*.pyi", "py.typed")
    for name in _PACKAGES:
        shutil.copytree(packages / name, place / name, ignore=ignore)
    # Empty __init__ files: upstream's import torch.
    shutil.copytree(packages / _GENERATED, place / _GENERATED, ignore=ignore)
    package = place
    for part in Path(_GENERATED).parts:
        package /= part
        (package / "__init__.py").write_bytes(b"")
