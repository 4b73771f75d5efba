"""Ends tools with a message and an exit code, never a stack trace."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence

from etbuild.errors import BuildError


def tool_main(main: Callable[[Sequence[str] | None], None]) -> Callable[..., int]:
    """Decorates a tool's main: prints the error that it ends with, if any.

    The decorated function returns the exit code: 0, or 1 after an error was printed.
    """

    @functools.wraps(main)
    def run(arguments: Sequence[str] | None = None) -> int:
        try:
            main(arguments)
        except BuildError as error:
            print(f"ERROR: {error}", file=sys.stderr)
            return 1
        return 0

    return run
