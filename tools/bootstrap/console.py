"""What the bootstrap tells its user, always on stderr, and the one kind of error it raises."""

from __future__ import annotations

import sys
from collections.abc import Sequence

# Bazel's own code for "the machine lacks something".
EXIT_ENVIRONMENT = 36


class BootstrapError(Exception):
    """A step failed in a way its user can act upon.

    Attributes:
        reason: what is wrong and where, one or more lines.
        remedies: what to do about it, one way per entry.
    """

    def __init__(self, reason: str, remedies: Sequence[str] = ()) -> None:
        """Keeps the reason and the remedies."""
        super().__init__(reason)
        self.reason = reason
        self.remedies = list(remedies)


def progress(message: str) -> None:
    """Tells what is being done."""
    print(f"bazelw: {message}", file=sys.stderr, flush=True)


def warn(message: str) -> None:
    """Tells what is odd but does not stop the work."""
    print(f"bazelw: warning: {indented(message)}", file=sys.stderr, flush=True)


def indented(text: str, by: str = "  ") -> str:
    """Indents all lines but the first."""
    return text.strip().replace("\n", "\n" + by)


def format_error(error: BootstrapError) -> str:
    """The whole message of an error, with its remedies."""
    lines = [f"bazelw: error: {indented(error.reason)}"]
    if len(error.remedies) == 1:
        lines.append(f"  To do: {indented(error.remedies[0], '    ')}")
    elif error.remedies:
        lines.append("  Do one of:")
        lines.extend(f"    - {indented(remedy, '      ')}" for remedy in error.remedies)
    return "\n".join(lines)
