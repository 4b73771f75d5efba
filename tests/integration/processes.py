"""Processes of a nested Bazel, found and disturbed by tests."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_PATIENCE_SECONDS = 240


def wait_for(condition: Callable[[], object], what: str) -> object:
    """Waits until a condition returns a true value; returns that value."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end:
        if matches := condition():
            return matches
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {_PATIENCE_SECONDS} s")


def lowerings(base: Path) -> list[int]:
    """Process ids of running lowerings: children of an output base's workers."""
    parents = {number for number, words in _commands(base) if "--persistent_worker" in words}
    return [number for number, _ in _commands(base) if _parent(number) in parents]


def workers(base: Path) -> list[int]:
    """Process ids of the workers, without their children."""
    matches = [number for number, words in _commands(base) if "--persistent_worker" in words]
    return [number for number in matches if _parent(number) not in matches]


def kill(numbers: list[int]) -> None:
    """Kills processes like the kernel when memory runs out."""
    for number in numbers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def _commands(base: Path) -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            place = os.readlink(folder / "cwd")
            if f"{base}/" in " ".join(words) or place.startswith(f"{base}/"):
                yield int(folder.name), words


def _parent(number: int) -> int:
    with contextlib.suppress(OSError):
        # After the name, which may hold spaces: state, parent, …
        stat = Path(f"/proc/{number}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[1])
    return 0
