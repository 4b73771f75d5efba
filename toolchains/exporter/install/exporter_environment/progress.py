"""Lines for the person who waits: one per step or package, on stderr, without carriage returns."""

from __future__ import annotations

import sys
import time


class Progress:
    """Writes progress lines and remembers when it all began."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._start = time.monotonic()
        self._quiet = quiet

    def step(self, text: str) -> None:
        """Says what is being done now."""
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def counted(self, number: int, total: int, text: str) -> None:
        """Says which of how many things is being done."""
        self.step(f"[{number}/{total}] {text}")

    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._start


def human_size(size: int) -> str:
    """A size as pip writes it: 191 MB, 4.2 MB, 12 kB."""
    if size >= 10_000_000:
        return f"{size / 1e6:.0f} MB"
    if size >= 1_000_000:
        return f"{size / 1e6:.1f} MB"
    return f"{max(1, round(size / 1e3))} kB"
