"""Errors, as people read them."""

from __future__ import annotations


class ServerError(Exception):
    """A server can't be started, or ended by itself.

    Args:
        reason: what is wrong, and where.
        remedies: what to do, one a line.
    """

    def __init__(self, reason: str, *remedies: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedies = remedies

    def __str__(self) -> str:
        lines = [self.reason, *(f"  what to do: {remedy}" for remedy in self.remedies)]
        return "\n".join(lines)
