"""Messages, always on stderr; the one kind of error that the bootstrap raises; other programs.

An error reads `<what it is about>: <what is wrong>: got <x>, expected <y>`; what to do about it is
kept apart, one way out per entry.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class BootstrapError(Exception):
    """A failure that the user can act on: what is wrong, and ways out (`remedies`)."""

    def __init__(self, reason: str, remedies: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedies = list(remedies)


def progress(message: str) -> None:
    """Prints what is being done."""
    print(f"bazelw: {message}", file=sys.stderr, flush=True)


def warn(message: str) -> None:
    """Prints what is unexpected but does not stop the work."""
    print(f"bazelw: warning: {indented(message)}", file=sys.stderr, flush=True)


def indented(text: str, by: str = "  ") -> str:
    """Indents all lines but the first."""
    return text.strip().replace("\n", "\n" + by)


def format_error(error: BootstrapError) -> str:
    """The whole message of an error, with its remedies."""
    lines = [f"bazelw: error: {indented(error.reason)}"]
    for number, remedy in enumerate(error.remedies):
        lines.append(f"  {'Or' if number else 'What to do'}: {indented(remedy, '    ')}")
    return "\n".join(lines)


def run(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program without input, whatever its exit code; captures what it prints."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
        **options,
    )


def last_line(result: subprocess.CompletedProcess[str]) -> str:
    """The last line that a program printed, errors first."""
    return ((result.stderr.strip() or result.stdout.strip()).splitlines() or ["no output"])[-1]
