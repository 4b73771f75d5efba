"""Processes that a server consists of: they end with it, however that happens."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1


def start(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, log: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    """Starts a program in a session of its own.

    It gets SIGTERM if this process dies without a word.

    Args:
        command: program and arguments.
        environment: all of its environment.
        folder: its working directory.
        log: where its output goes; None: this process's standard error.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def before() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=log if log else 2,
        stderr=log if log else 2,
        start_new_session=True,
        preexec_fn=before,
    )


def end(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Ends a program and all that it started.

    Args:
        process: the program, which `start` started.
        seconds: how long it may take to end by itself.
    """
    family = _family(process.pid)
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    # What is left: children that were born since, or that outlived their parent.
    family |= _family(process.pid)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = {member for member in family if _alive(member)}
        if not left:
            return
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _family(leader: int) -> set[tuple[int, int]]:
    """Process id and start time of a session's processes and of their descendants."""
    parents: dict[int, int] = {}
    start_times: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _status(int(entry))):
            _, parent, session, started = fields
            parents[int(entry)] = parent
            if session == leader:
                start_times[int(entry)] = started
    grown = True
    while grown:
        more = [
            pid
            for pid, parent in parents.items()
            if parent in start_times and pid not in start_times
        ]
        for pid in more:
            if fields := _status(pid):
                start_times[pid] = fields[3]
            else:
                del parents[pid]
        grown = bool(more)
    start_times.pop(leader, None)
    return set(start_times.items())


def _alive(process: tuple[int, int]) -> bool:
    fields = _status(process[0])
    return bool(fields) and fields[0] != "Z" and fields[3] == process[1]


def _status(pid: int) -> tuple[str, int, int, int] | None:
    """State, parent, session and start time of a process; None: there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The program's name stands in parentheses and may have spaces.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[3]), int(fields[19])
