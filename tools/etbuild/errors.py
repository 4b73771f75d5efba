"""The error that is shown to a user as it is, without a stack trace."""

from __future__ import annotations


class BuildError(Exception):
    """Something in a user's files is wrong; the message says what, where, and what to do.

    Model code and recipe builders may raise it, too: its text becomes the action's message.

    Args:
      what: what is wrong, with the names and values involved; got against expected.
      hint: what to do about it; one sentence, may be empty.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what}\n{hint}" if hint else what)
        self.what = what
        self.hint = hint
