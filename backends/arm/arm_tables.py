"""Functions in 16 bits, for which TOSA has 513 places and straight lines between them.

What is steep or has steps lies beside the lines: a logarithm near zero, a sine over many turns,
`floor`. How far is computed, for the numbers that a result's scale holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from etlower import operators
from executorch.backends.arm._passes.insert_table_ops import TableOps
from executorch.exir.dialects._ops import ops
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node

# Steps between two places; and of the largest result, what a line may be beside the function.
_APART = 128
_ALLOWED = 0.005
# Steps between two numbers that are tried.
_TRIED = 4
_ALPHA = 1.0


def is_missed(node: Node) -> bool:
    """Tells whether a function's lines lie beside it.

    Args:
      node: of the edge dialect, with the scales of its input and its result around it.
    """
    function = _function(node)
    if function is None:
        return False
    given, result = _scale(node.args[:1]), _scale(node.users)
    if given is None or result is None:
        return False
    with unset_fake_temporarily():
        return _lies_beside(function, given, result)


def _lies_beside(
    function: Callable[[torch.Tensor], torch.Tensor],
    given: tuple[float, int],
    result: tuple[float, int],
) -> bool:
    steps = torch.arange(-(1 << 15), (1 << 15) + 1, _TRIED, dtype=torch.float64)
    values = function(((steps - given[1]) * given[0]).float()).double().flatten()
    low, high = ((end - result[1]) * result[0] for end in (-(1 << 15), (1 << 15) - 1))
    places = values[:: _APART // _TRIED].nan_to_num(0.0, high, low).clamp(low, high)
    share = torch.arange(0, 1, _TRIED / _APART, dtype=torch.float64)
    lines = torch.lerp(places[:-1, None], places[1:, None], share).flatten()
    held = (values[:-1] >= low) & (values[:-1] <= high)
    beside = (lines - values[:-1]).abs()[held]
    return bool(beside.numel()) and beside.max().item() > _ALLOWED * max(-low, high)


def _function(node: Node) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """The function of one number that a call computes; None: upstream has no table for it."""
    if node.target is _ELU:
        factors = [_ALPHA, 1.0, 1.0]
        factors[: len(node.args) - 1] = node.args[1:]
        return lambda x: torch.ops.aten.elu.default(x, *factors)
    tables = TableOps(None)
    if node not in tables:
        return None
    return tables[node]  # type: ignore[no-any-return]


def _scale(nodes: Any) -> tuple[float, int] | None:
    """The scale and the zero point of 16 bits that one of some calls has; None: none has."""
    for node in nodes:
        if operators.packet(node) in _SCALED and torch.int16 in node.args:
            return node.args[1], node.args[2]
    return None


_ELU = ops.edge.aten.elu.default
_SCALED = ("quantize_per_tensor", "dequantize_per_tensor")
