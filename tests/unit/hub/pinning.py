"""What the tests of `et pin` pass around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """What `et pin` printed, and its exit code."""

    code: int
    out: str
    err: str


Pin = Callable[..., Result]
