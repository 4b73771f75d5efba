"""Nets that make infinities or NaN on purpose, and take them away again.

Some processors' floats have none: their largest number would stand for an infinity, and a softmax
of a row that a mask hides whole would be the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.operators.nets import Net

# Counts of neighbors, some of which have none.
_COUNTS = torch.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 0.0, 0.0, 1.0]])
_SCORES = torch.linspace(-2, 2, 20).reshape(4, 5).sin()
_HIDDEN = torch.tensor([[0, 1, 0, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [1, 1, 0, 0, 1]]) > 0

_OF_COUNTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "root of counts, == inf": lambda x: _without(x**-0.5, lambda y: y == math.inf),
    "root of counts, isinf": lambda x: _without(x.rsqrt(), torch.isinf),
    "root of counts, isfinite": lambda x: _without(1 / x.sqrt(), lambda y: ~torch.isfinite(y)),
    "inverse counts, nan_to_num": lambda x: torch.nan_to_num(1 / x, posinf=0.0) + 1,
    "inverse counts, where": lambda x: torch.where(x > 0, 1 / x, 0.5) * 2,
    "logarithm of counts, nan_to_num": lambda x: torch.nan_to_num(x.log(), neginf=-1.0) + 1,
    "quotient of counts, isnan": lambda x: _without(x / x, torch.isnan),
    "inverse square + reciprocal": lambda x: (x**-2 + 1).reciprocal(),
}
_OF_ROWS: dict[str, Callable[[torch.Tensor], Any]] = {
    "hidden rows, nan_to_num": lambda x: torch.nan_to_num(x) + 1,
    "hidden rows, isnan": lambda x: _without(x, torch.isnan),
    "hidden rows, != itself": lambda x: torch.where(x != x, torch.zeros_like(x), x) + 1,
}


def nets() -> Iterator[Net]:
    """All nets."""
    for name, function in _OF_COUNTS.items():
        yield Net(name, "float32: 2x4", function, (_COUNTS,))
    for name, function in _OF_ROWS.items():
        softmax = _Softmax(function)
        yield Net(name, "float32: 4x5, bool", softmax, (_SCORES, _HIDDEN))


def _without(x: torch.Tensor, asked: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    return x.masked_fill(asked(x), 0) + 1


class _Softmax:
    """A function of the softmax of scores, some rows of which are hidden."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        self._function = function

    def __call__(self, scores: torch.Tensor, hidden: torch.Tensor) -> Any:
        return self._function(scores.masked_fill(hidden, -math.inf).softmax(-1))
