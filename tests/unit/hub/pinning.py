"""Types that the tests of `et pin` pass around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """The printed text of `et pin`, and its exit code."""

    code: int
    out: str
    err: str


Pin = Callable[..., Result]
