"""Nets that compute in 64-bit floats, of which delegates have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from tests.operators.nets import Net

# Of a picture of 64-bit floats. A third is no 32-bit float.
_THIRD = 1 / 3
_FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "attention": lambda x: F.scaled_dot_product_attention(x, x + _THIRD, x),
    "bounds": lambda x: x.clamp(-_THIRD, 2 * _THIRD),
    "choice": lambda x: torch.where(x > 0, x, _THIRD),
    "conv1d": lambda x: F.conv1d(x[0], _weights(4, 5, 3), padding=1),
    "conv2d": lambda x: F.conv2d(x, _weights(4, 3, 3, 3), padding=1),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, _weights(3, 4, 3, 3)),
    "division": lambda x: x / 0.7,
    "exponentials": lambda x: (x.exp(), x.sigmoid(), x.softmax(-1), F.gelu(x)),
    "functions": lambda x: (x.sin(), x.tanh(), x.square().sqrt(), (x.abs() + 1).log()),
    "joined": lambda x: torch.cat([x, x * _THIRD, torch.full_like(x, _THIRD)], 1),
    "linear": lambda x: F.linear(x, _weights(4, 7)),
    "linear with a bias": lambda x: F.linear(x, _weights(4, 7), _weights(4)),
    "matmul": lambda x: x @ x.transpose(-1, -2),
    "means": lambda x: (x.mean(1), x.var(-1), x.mean()),
    "mm": lambda x: x[0, 0] @ x[0, 1].transpose(0, 1),
    "padding": lambda x: F.pad(x, (1, 2), value=_THIRD),
    "positions": lambda x: x + torch.arange(7, dtype=torch.float64) / 3,
    "power": lambda x: (x.abs() + 1) ** _THIRD,
    "product": lambda x: x * 0.7,
    "sums": lambda x: (x.sum(1), x.sum(), x.cumsum(2)),
    "sum with a number": lambda x: x + _THIRD,
}


def nets() -> Iterator[Net]:
    """All nets."""
    inputs = (torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(0)),)
    for name, function in _FUNCTIONS.items():
        yield Net(f"{name} of 64-bit floats", "float32: 2x3x5x7", _Doubled(function), inputs)


def _weights(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)


class _Doubled:
    """Computes a function of a tensor's 64-bit floats.

    Args:
      function: of one tensor.
    """

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        self._function = function

    def __call__(self, x: torch.Tensor) -> Any:
        return self._function(x.double())
