"""Outcomes of nets."""

from __future__ import annotations

from dataclasses import dataclass

EQUAL, DIFFERS, BUILD, RUN, CRASH = "equal", "differs", "build", "run", "crash"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a net.

    Attributes:
      kind: EQUAL; DIFFERS; BUILD and RUN, if it was refused there; CRASH: the process ended.
      reason: why, or by how much; empty if it is equal.
    """

    kind: str
    reason: str = ""
