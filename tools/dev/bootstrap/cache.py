"""The cache directory: where its parts are, and how they are written.

A part is complete or absent: it is built under another name and renamed when it is done. Only one
process at a time fills the cache, under a lock that the kernel releases even if the process dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bootstrap.console import progress

# Raise it when directories that an older bootstrap assembled must not be used anymore.
SCHEMA = 1

_UNFINISHED = "unfinished-"


class Cache:
    """Paths in the cache directory, whose own path is absolute."""

    def __init__(self, root: Path) -> None:
        machine = os.uname().machine
        self.root = root
        self.lock = root / "lock"
        # The assembled Bazel, with Debian's modules; or these alone, for an installed Bazel.
        self.bazel = root / f"bazel-{SCHEMA}-{machine}"
        self.modules = root / f"modules-{SCHEMA}"
        self.bazelisk = root / f"bazelisk-{SCHEMA}-{machine}"
        self.stubs = root / "stubs"
        self.certificates = root / "certificates"  # Keystores named by their content.
        self.rc_files = root / "rc"  # Named by their content.
        self.bazel_tools = root / "bazel_tools"  # The module files of installed Bazels' own tools.


@contextlib.contextmanager
def exclusive(lock: Path, purpose: str) -> Iterator[None]:
    """Holds a lock file; waits for it, and says so, while another process holds it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            progress(f"waiting for another bazelw (process {owner}), which is {purpose}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Removes a directory tree, including read-only directories."""
    for directory, names, _ in os.walk(path):
        for name in names:
            child = Path(directory, name)
            if not child.is_symlink():
                with contextlib.suppress(OSError):
                    child.chmod(0o755)
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def scratch_directory(parent: Path) -> Iterator[Path]:
    """Yields a temporary directory that may end up with read-only directories in it."""
    path = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=parent))
    try:
        yield path
    finally:
        remove_tree(path)


@contextlib.contextmanager
def new_directory(final: Path) -> Iterator[tuple[Path, Path]]:
    """Yields a directory that becomes `final` if the block succeeds, and one for scratch files.

    Hold the lock: leftovers of killed processes are removed first.
    """
    for leftover in final.parent.glob(f"{_UNFINISHED}*"):
        remove_tree(leftover)
    with scratch_directory(final.parent) as parent:
        directory, scratch = parent / "new", parent / "scratch"
        directory.mkdir()
        scratch.mkdir()
        yield directory, scratch
        if final.exists():
            final.rename(parent / "old")
        directory.rename(final)


def write_file(path: Path, content: str | bytes, *, executable: bool = False) -> None:
    """Writes a file atomically: readers see the old content or the new, nothing in between."""
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogateescape")
    path.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(path.parent) as scratch:
        temporary = scratch / path.name
        temporary.write_bytes(content)
        temporary.chmod(0o755 if executable else 0o644)
        temporary.replace(path)
