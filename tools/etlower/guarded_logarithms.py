"""Logarithms of what a model keeps from zero by a small number: `(p + 1e-8).log()`.

In a delegate's 16-bit floats that number is zero, and has few digits below 6.1e-5, so that the
logarithm of zero is another one. ExecuTorch's own kernels compute both in 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from etbuild.exact.ranges import TINY
from torch.fx import Graph, Node

from etlower.operators import MOVING, packet

_GUARDS = frozenset(("add", "clamp", "clamp_min", "maximum"))


def calls(graph: Graph, number_of: Callable[[Any], float | None]) -> set[Node]:
    """Finds such logarithms, and what they are of.

    Args:
      graph: of a program that a partitioner gets.
      number_of: the number that an argument is; NaN: not known; None: it is no number.
    """
    found: set[Node] = set()
    for node in graph.nodes:
        guard = node.args[0] if packet(node) in ("log", "log10", "log2") else None
        if isinstance(guard, Node) and packet(guard) in _GUARDS:
            given = (*guard.args, *guard.kwargs.values())
            numbers = [number_of(_viewed(each)) for each in given]
            # Of one that is not known, too.
            if any(number is not None and not _is_held(number) for number in numbers):
                found |= {node, guard}
    return found


def _viewed(value: Any) -> Any:
    while isinstance(value, Node) and packet(value).removesuffix("_copy") in MOVING:
        value = value.args[0]
    return value


def _is_held(number: float) -> bool:
    return abs(number) >= TINY or number == 0
