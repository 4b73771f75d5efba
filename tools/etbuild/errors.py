"""The error that is shown to a user as it is, how it lists names, and a request to lower again."""

from __future__ import annotations

from collections.abc import Iterable

_MAX_NAMES = 8


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


class LowerAgain(Exception):
    """Raised by a partitioner or a backend's compiler that learned what to do otherwise.

    The model is lowered once more, with the same recipe. Whoever raises it has changed its own
    state before, so that the next attempt differs.
    """


def listed(names: Iterable[str]) -> str:
    """Names for a message, in their order: "a, b"; the rest of a long list as a count; "none"."""
    known = list(names)
    rest = len(known) - _MAX_NAMES
    return ", ".join(known[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "") or "none"
