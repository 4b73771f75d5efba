"""Folders and values for these tests."""

from __future__ import annotations

import hashlib
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
