"""Stages of a lowering: the current one, and how long each took."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Of Linux.
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class _Stage:
    """A stage that ended."""

    name: str
    seconds: float
    cpu_seconds: float


class Progress:
    """Stages of one request, in order.

    Example:

        with progress.stage("export"):
            …
    """

    def __init__(self) -> None:
        self._done: list[_Stage] = []
        self._current: tuple[str, float] | None = None

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts the time of a stage; one that raises stays the current one."""
        self._current = (name, time.monotonic())
        cpu = cpu_seconds()
        yield
        seconds = time.monotonic() - self._current[1]
        self._done.append(_Stage(name, seconds, cpu_seconds() - cpu))
        self._current = None

    @property
    def current(self) -> str:
        """Name of the stage that is running, or failed; empty: none."""
        return self._current[0] if self._current else ""

    def line(self) -> str:
        """The stages as one line: "load 0.1 s, export 2.0 s, lower failed after 3.1 s"."""
        parts = [f"{stage.name} {stage.seconds:.1f} s" for stage in self._done]
        if self._current:
            name, start = self._current
            parts.append(f"{name} failed after {time.monotonic() - start:.1f} s")
        return ", ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Seconds per stage and the peak of resident memory in bytes."""
        return {
            "stages": [
                {
                    "name": stage.name,
                    "seconds": round(stage.seconds, 3),
                    "cpu_seconds": round(stage.cpu_seconds, 3),
                }
                for stage in self._done
            ],
            "peak_memory_bytes": peak_memory(),
        }


def cpu_seconds() -> float:
    """Returns the processor time of this process and of children that it waited for.

    Other work on the machine hardly changes it.
    """
    own, children = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def peak_memory() -> int:
    """The most memory that this process has had, in bytes.

    Where Linux says it, since the process began: `getrusage` of a program includes the process that
    started it.
    """
    try:
        status = _STATUS.read_text(encoding="ascii", errors="replace")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts bytes, Linux KiB.
    return peak if sys.platform == "darwin" else peak * 1024
