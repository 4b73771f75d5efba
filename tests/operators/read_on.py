"""Nets whose whole numbers and booleans are computed with in the part that gives them.

A delegate hands out results in the types of the program. Inside, places may have no sign there, and
counts of booleans be booleans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from tests.operators.nets import Net

# Of floats that all differ.
_FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "argmax": lambda x: x.argmax(1),
    "argmax of all": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(0, keepdim=True),
    "argsort": lambda x: x.argsort(1),
    "cast": lambda x: x.int(),
    "comparison": lambda x: (x > 0) & (x < 2),
    "count": lambda x: (x > 0).sum(1),
    "count so far": lambda x: (x > 0).cumsum(1),
    "indices beyond": lambda x: torch.searchsorted(torch.arange(-3.0, 4.0), x),
    "linear": lambda x: F.linear(x.long(), torch.ones(2, x.shape[1], dtype=torch.int64)),
    "logsumexp": lambda x: x.long().logsumexp(1),
    "max": lambda x: x.max(1)[1],
    "min": lambda x: x.min(0)[1],
    "nonnegative": lambda x: (x >= 0).all(1),
    "places that are picked": lambda x: x.argmax(1)[:2] + x.argmin(1)[:2],
    "power of booleans": lambda x: (x > 0).square(),
    "product of booleans": lambda x: (x > 0) * 3,
    "sort": lambda x: x.sort(1)[1],
    "sum of booleans": lambda x: (x > 0) + (x > 1).long(),
    "topk": lambda x: x.topk(3, 1)[1],
    "topk of least": lambda x: x.topk(2, 1, largest=False)[1],
}


def nets() -> Iterator[Net]:
    """All nets: what a function gives, and what is read of it."""
    order = torch.randperm(51, generator=torch.Generator().manual_seed(0))
    inputs = ((order.reshape(3, 17) - 25) / 8,)
    for name, function in _FUNCTIONS.items():
        yield Net(f"{name}, read on", "float32: 3x17", _Further(function), inputs)


class _Further:
    """Computes with a function's whole numbers or booleans.

    Args:
      function: of one tensor.
    """

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        self._function = function

    def __call__(self, x: torch.Tensor) -> Any:
        """The function's result, computed with."""
        found = self._function(x)
        return ~found if found.dtype == torch.bool else (-found - 3, (2 - found) * 0.5)
