"""Stages of a lowering: the current one, and how long each took."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any


class Progress:
    """Stages of one request, in order.

    Example:

        with progress.stage("export"):
            …
    """

    def __init__(self) -> None:
        self._done: list[tuple[str, float]] = []
        self._current: tuple[str, float] | None = None

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts the time of a stage; one that raises stays the current one."""
        self._current = (name, time.monotonic())
        yield
        self._done.append((name, time.monotonic() - self._current[1]))
        self._current = None

    @property
    def current(self) -> str:
        """Name of the stage that is running, or failed; empty: none."""
        return self._current[0] if self._current else ""

    def line(self) -> str:
        """The stages as one line: "load 0.1 s, export 2.0 s, lower failed after 3.1 s"."""
        parts = [f"{name} {seconds:.1f} s" for name, seconds in self._done]
        if self._current:
            name, start = self._current
            parts.append(f"{name} failed after {time.monotonic() - start:.1f} s")
        return ", ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Seconds per stage and the peak of resident memory in bytes."""
        return {
            "stages": [{"name": n, "seconds": round(s, 3)} for n, s in self._done],
            "peak_memory_bytes": peak_memory(),
        }


def peak_memory() -> int:
    """The most memory that this process has had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts bytes, Linux KiB.
    return peak if sys.platform == "darwin" else peak * 1024
