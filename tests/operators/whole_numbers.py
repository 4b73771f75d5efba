"""Nets of whole numbers that 32-bit floats do not hold, and of bytes that overflow.

Kernels and delegates that compute them in floats round them, in silence. A float beside them has
the nets in the records of recipes that are tried with floats only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from tests.operators.nets import Net

_LARGE = ((387420489, 7, 16777217), (-387420489, 16777219, -3))
_BYTES = ((100, 7, 3), (99, 120, 2))
_FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "amax": lambda x: x.amax(1),
    "argmax": lambda x: x.argmax(1),
    "bitwise_xor": lambda x: x ^ 3,
    "cat": lambda x: torch.cat([x, x.flip(0)], 1),
    "clamp": lambda x: x.clamp(-5, 100),
    "comparison": lambda x: (x < 16777216, x == 16777217),
    "cumsum": lambda x: x.cumsum(1),
    "difference": lambda x: x - x.flip(0),
    "expand": lambda x: x[None].expand(2, 2, 3),
    "floor_divide": lambda x: x // 3,
    "gather": lambda x: torch.gather(x, 1, (x > 0).long()),
    "index_add": lambda x: torch.index_add(x, 0, torch.tensor([0, 0]), x),
    "index_put": lambda x: torch.index_put(x, (torch.tensor([0]),), x[1]),
    "mask": lambda x: x.masked_fill(x > 50, 3),
    "matmul": lambda x: (x & 127) @ (x & 127).T,
    "neg": lambda x: -x,
    "pad": lambda x: F.pad(x, (1, 0), value=3),
    "permute": lambda x: x.T.contiguous(),
    "prod": lambda x: (x & 63).prod(1),
    "product": lambda x: x * 3,
    "remainder": lambda x: x % 7,
    "repeat": lambda x: x.repeat(2, 1),
    "roll": lambda x: x.roll(1, 1),
    "scatter": lambda x: torch.scatter(x, 1, torch.tensor([[0], [1]]), x),
    "shift": lambda x: x >> 1,
    "slice": lambda x: x[:, 1:],
    "sort": lambda x: x.sort(1)[0],
    "stack": lambda x: torch.stack([x, x.flip(0)]),
    "sum": lambda x: x.sum(1),
    "sum of all": lambda x: x.sum(),
    "sum of squares": lambda x: (x * x).sum(1),
    "total": lambda x: x + x.flip(0),
    "triu": lambda x: x.triu(),
    "where": lambda x: torch.where(x > 50, x, 0),
}


def nets() -> Iterator[Net]:
    """All nets, of one function each, by type."""
    for dtype, numbers in (
        (torch.int8, _BYTES),
        (torch.int32, _LARGE),
        (torch.int64, _LARGE),
    ):
        whole = torch.tensor(numbers, dtype=dtype)
        for name, function in _FUNCTIONS.items():
            if dtype == torch.int8 and name == "comparison":
                continue
            kind = str(dtype).removeprefix("torch.")
            yield Net(
                f"{name} of {kind}",
                f"float32 beside {kind}: 2, 2x3",
                lambda x, n, function=function: (x + 1, function(n)),
                (torch.tensor([0.5, -1.5]), whole),
            )
