"""The torch-free folder: what tools need that read and write .pte and .ptd files, and no more."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from .errors import InstallError

# Packages of pure Python that come along; compiled accelerators are left out, all have a fallback.
_PACKAGES = ("flatbuffers", "jinja2", "markupsafe")
_GENERATED = "executorch/exir/_serialize/generated"
_DATA_SCHEMA = "executorch/extension/flat_tensor/serialize/flat_tensor.fbs"
_FLATC = "executorch/data/bin/flatc"


def make(packages: Path, place: Path) -> None:
    """Makes the folder `place` out of an unpacked site-packages."""
    missing = [
        p for p in (*_PACKAGES, _GENERATED, _DATA_SCHEMA, _FLATC) if not (packages / p).exists()
    ]
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
    _generate_data_classes(packages, place)


def _generate_data_classes(packages: Path, place: Path) -> None:
    """flatc's classes for flat_tensor.fbs, which upstream's wheel doesn't hold."""
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".flatc-") as scratch:
        command = [str((packages / _FLATC).absolute()), "--python", "--gen-object-api"]
        command += ["-o", scratch, str((packages / _DATA_SCHEMA).absolute())]
        try:
            subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise InstallError(
                "ExecuTorch's flatc failed to generate the classes for data files",
                where=_FLATC,
                got=getattr(error, "stderr", None) or error,
                todo="see flatc's message; the program comes with the executorch package",
            ) from error
        # In both: the exporter splits programs with the linker's code.
        for file in sorted(Path(scratch).rglob("*.py")):
            for folder in (place, packages):
                target = folder / file.relative_to(scratch)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
