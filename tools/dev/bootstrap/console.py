"""Messages of the bootstrap, always on stderr.

An error reads `<what it is about>: <what is wrong>: got <x>, expected <y>`; what to do about it is
kept apart, one way out per entry.
"""

from __future__ import annotations

import sys

from debian.command import ActionableError, indented

INSTALL_BAZEL = "Install Bazel 7.7 or newer, or Bazelisk, and put it on PATH, or set BAZEL to it."


def progress(message: str) -> None:
    """Prints what is being done."""
    print(f"bazelw: {message}", file=sys.stderr, flush=True)


def warn(message: str) -> None:
    """Prints what is unexpected but does not stop the work."""
    print(f"bazelw: warning: {indented(message)}", file=sys.stderr, flush=True)


def format_error(error: ActionableError) -> str:
    """The whole message of an error, with its remedies."""
    lines = [f"bazelw: error: {indented(error.reason)}"]
    for number, remedy in enumerate(error.remedies):
        lines.append(f"  {'Or' if number else 'What to do'}: {indented(remedy, '    ')}")
    return "\n".join(lines)
