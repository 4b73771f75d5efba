"""How tools end: with a message and an exit code, never a stack trace."""

from __future__ import annotations

import sys
from collections.abc import Callable

from etbuild.errors import BuildError


def exit_code(work: Callable[[], None]) -> int:
    """Runs a tool and prints the error that it ends with, if any.

    Returns:
        0, or 1 after an error was printed.
    """
    try:
        work()
    except BuildError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0
