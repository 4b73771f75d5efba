"""The torch-free folder: the packages that tools need to read and write .pte and .ptd files."""

from __future__ import annotations

import shutil
from pathlib import Path

from .errors import InstallError

# Compiled accelerators of these stay behind: each has a fallback in Python.
_PURE = ("flatbuffers", "jinja2", "markupsafe")
_COMPILED = ("zstandard",)
_GENERATED = "executorch/exir/_serialize/generated"


def create(packages: Path, output: Path) -> None:
    """Copies the packages from the folder `packages` to the new folder `output`."""
    missing = [name for name in (*_PURE, *_COMPILED, _GENERATED) if not (packages / name).exists()]
    if missing:
        raise InstallError(
            f"{output.name}: packages are missing: expected {', '.join(missing)}. Add them to the "
            "lock, or set `lite = False` on the python_environment."
        )
    unused = ("__pycache__", "*.pyi", "py.typed")
    ignore = shutil.ignore_patterns(*unused, "*.so", "*.dylib")
    for name in (*_PURE, _GENERATED):
        shutil.copytree(packages / name, output / name, ignore=ignore)
    for name in _COMPILED:
        shutil.copytree(packages / name, output / name, ignore=shutil.ignore_patterns(*unused))
    package = output
    for part in _GENERATED.split("/"):
        package /= part
        (package / "__init__.py").write_bytes(b"")  # Upstream's imports torch.
