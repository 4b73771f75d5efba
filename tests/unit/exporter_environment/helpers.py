"""Folders and values for these tests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
REPOSITORY = Path(__file__).absolute().parents[3]
INSTALLER = REPOSITORY / "toolchains/exporter/install"
LOCKS = REPOSITORY / "toolchains/exporter/locks"
BACKENDS = REPOSITORY / "backends"

LINUX = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.7",
    "python_version": "3.11",
    "sys_platform": "linux",
}

MakeWheel = Callable[..., Path]


def sha256(path: Path) -> str:
    """A file's hash as locks have it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def entry(wheel: Path) -> str:
    """The entry of a lock for a wheel."""
    name, version = wheel.name.split("-")[:2]
    return f"{name}=={version.partition('+')[0]} --hash=sha256:{sha256(wheel)}\n"


def lay_files(wheels: Path, folder: Path) -> Path:
    """Lays out wheels as Bazel does what it downloads; returns the folder."""
    for wheel in wheels.iterdir():
        place = folder / wheel.name.partition("-")[0] / wheel.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(wheel)
    return folder


def create(lock: Path, output: Path, **settings: object) -> dict[str, object]:
    """Installs an environment of the wheels beside its lock and reads its environment.json."""
    files = lay_files(lock.parent / "wheels", output.with_name(f"files of {output.name}"))
    settings = {"lite": True, "files": files, **settings}
    from install import environment

    environment.create(environment.Request(locks=[lock], output=output, **settings))  # type: ignore[arg-type]
    return json.loads((output / "environment.json").read_text())


def snapshot(root: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
