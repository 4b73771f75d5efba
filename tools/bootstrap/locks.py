"""One process at a time fills the cache, and what it leaves there is complete or not there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bootstrap.console import BootstrapError, progress

TEMPORARY_PREFIX = "unfinished-"


def make_directory(path: Path) -> Path:
    """Makes a directory of the cache.

    Raises:
        BootstrapError: the cache cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BootstrapError(
            f"cannot make the cache directory {path}: {error.strerror or error}",
            ["Set XDG_CACHE_HOME to a directory that you may write, or HOME to one of your own."],
        ) from error
    return path


@contextlib.contextmanager
def exclusive(lock: Path, purpose: str) -> Iterator[None]:
    """Holds a lock file; waits for it, and says so, while another process has it.

    The kernel drops the lock with the process, so no lock outlives a killed one.
    """
    make_directory(lock.parent)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            progress(f"another bazelw (process {owner}) is {purpose}; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def make_writable(path: Path) -> None:
    """Gives its owner the right to remove everything in a directory tree."""
    for directory, names, _ in os.walk(path):
        for name in names:
            child = Path(directory, name)
            if not child.is_symlink():
                with contextlib.suppress(OSError):
                    child.chmod(0o755)


def remove_tree(path: Path) -> None:
    """Removes a directory tree, also one with read-only directories in it."""
    make_writable(path)
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def new_directory(final: Path) -> Iterator[Path]:
    """Gives a temporary directory that becomes `final` if the block ends well, else vanishes.

    Call it under the lock: it first removes what killed processes left behind.
    """
    make_directory(final.parent)
    for leftover in final.parent.glob(TEMPORARY_PREFIX + "*"):
        remove_tree(leftover)
    temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=final.parent))
    try:
        temporary.chmod(0o755)
        yield temporary
        if final.exists():
            remove_tree(final)
        temporary.rename(final)
    finally:
        if temporary.exists():
            remove_tree(temporary)


def write_file(path: Path, content: str, *, executable: bool = False) -> None:
    """Writes a file so that a reader sees the old content or the new one, nothing between."""
    make_directory(path.parent)
    descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(content)
        Path(temporary).chmod(0o755 if executable else 0o644)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
