"""Errors that are shown as they are, without a stack trace."""

from __future__ import annotations


class LlmError(Exception):
    """Something about a file or an argument is wrong.

    Args:
      what: what is wrong and where: the file, what was expected, what was found.
      hint: what to do about it; one sentence, may be empty.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what}\n{hint}" if hint else what)


class ContextFull(LlmError):
    """A conversation needs more tokens than the program's KV cache holds."""
