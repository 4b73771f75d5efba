"""Floats beside what has scales that QNN's 16 bits do not hold: squares, and what is as large."""

from __future__ import annotations

import torch
from etlower import operators
from etlower.operators import gives_floats
from executorch.backends.qualcomm.utils.constants import (
    QCOM_QUANT_ATTRS,
    QCOM_QUANT_MAX,
    QCOM_QUANT_MIN,
    QCOM_SCALE,
    QCOM_ZERO_POINT,
)
from torch.fx import Graph, Node

# Their results are small though what they are given may not be.
_ENDING = frozenset(
    ("_softmax", "div", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sigmoid", "sqrt")
)


def following(graph: Graph) -> set[Node]:
    """Finds floats without a scale that are squares, or read numbers beyond 65,504.

    What follows from these is among them, up to a root or another end.

    Norms of 8 bits are computed in floats where a small number keeps them from zero, and the sum of
    the squares of 64 numbers of 32 is 65,536.

    Args:
      graph: of a quantized program, with upstream's marks of scales.
    """
    found: set[Node] = set()
    for node in graph.nodes:
        if not gives_floats(node) or QCOM_QUANT_ATTRS in node.meta:
            continue
        sources = node.all_input_nodes
        large = any(source in found and not _ends(source) for source in sources)
        if large or _is_square(node) or any(map(_has_wide_scale, sources)):
            found.add(node)
    return found


def _has_wide_scale(node: Node) -> bool:
    """Tells whether a value's scale has steps for numbers beyond 16-bit floats."""
    scale = node.meta.get(QCOM_QUANT_ATTRS, {})
    if not isinstance(scale.get(QCOM_SCALE), float):
        return False
    ends = (scale[end] - scale[QCOM_ZERO_POINT] for end in (QCOM_QUANT_MIN, QCOM_QUANT_MAX))
    return max(map(abs, ends)) * scale[QCOM_SCALE] > torch.finfo(torch.float16).max


def _is_square(node: Node) -> bool:
    name = operators.packet(node)
    if name == "mul":
        return _has_factor(*node.args) or _has_factor(*reversed(node.args))
    return name == "pow" and not _is_root(node)


def _has_factor(x: object, factor: object) -> bool:
    """Tells whether a value is another one, or a product with it."""
    return x is factor or (
        isinstance(x, Node) and operators.packet(x) == "mul" and factor in x.args
    )


def _ends(node: Node) -> bool:
    return operators.packet(node) in _ENDING or _is_root(node)


def _is_root(node: Node) -> bool:
    exponent = node.args[1] if operators.packet(node) == "pow" else 1
    return isinstance(exponent, int | float) and exponent < 1
