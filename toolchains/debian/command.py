"""Other programs, and errors that a user can act on. The bootstrap uses it without packages."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class ActionableError(Exception):
    """A failure that the user can act on: what is wrong, and ways out (`remedies`)."""

    def __init__(self, reason: str, remedies: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedies = list(remedies)


def indented(text: str, by: str = "  ") -> str:
    """Indents all lines but the first."""
    return text.strip().replace("\n", "\n" + by)


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
