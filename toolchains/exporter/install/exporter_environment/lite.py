"""The torch-free folder: what tools need that read and write .pte and .ptd files, and no more."""

from __future__ import annotations

import shutil
from pathlib import Path

from .errors import InstallError

# Packages of pure Python that come along; compiled accelerators are left out, all have a fallback.
_PACKAGES = ("flatbuffers", "jinja2", "markupsafe")
# Packages that are nothing without their extension modules.
_COMPILED_PACKAGES = ("zstandard",)
_GENERATED = "executorch/exir/_serialize/generated"


def make(packages: Path, place: Path) -> None:
    """Makes the folder `place` out of an unpacked site-packages."""
    wanted = (*_PACKAGES, *_COMPILED_PACKAGES, _GENERATED)
    missing = [p for p in wanted if not (packages / p).exists()]
    if missing:
        raise InstallError(
            "the torch-free folder can't be made from these packages",
            where=packages,
            got="missing: " + ", ".join(missing),
            wanted="executorch 1.5 or newer, flatbuffers, jinja2, markupsafe and zstandard",
            todo="add them to the lock, or set `lite = False` on the python_environment",
        )
    place.mkdir(parents=True)
    unused = ("__pycache__", "*.pyi", "py.typed")
    ignore = shutil.ignore_patterns(*unused, "*.so", "*.dylib")
    for name in _PACKAGES:
        shutil.copytree(packages / name, place / name, ignore=ignore)
    for name in _COMPILED_PACKAGES:
        shutil.copytree(packages / name, place / name, ignore=shutil.ignore_patterns(*unused))
    # Empty __init__ files: upstream's import torch.
    shutil.copytree(packages / _GENERATED, place / _GENERATED, ignore=ignore)
    package = place
    for part in Path(_GENERATED).parts:
        package /= part
        (package / "__init__.py").write_bytes(b"")
