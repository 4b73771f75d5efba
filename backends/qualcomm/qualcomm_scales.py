"""Scales that meet other scales or none, which QNN computes wrong.

Upstream writes a scale on the node whose values have one, and drops the operators that quantize and
dequantize. QNN's compiler then takes an operator between floats and integers as one that keeps
bytes: a view of floats whose result has a scale. Here such an operator stays with ExecuTorch, so
that what has a scale is quantized where it enters a delegate, and dequantized where it leaves it.

A value that is quantized to several scales has the last one's there: it is quantized to one of them
(`in_a_row`), and QNN changes that to the others. What is written into a tensor has the scale of the
result (`in_results_scale`).
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from etlower import operators, rescaling
from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS
from torch.fx import GraphModule

_QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
_DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default
# Of the same numbers in the same shape.
_COPIES = ("alias", "clone", "contiguous", "detach", "detach_", "lift_fresh_copy")
# They write a tensor into another one.
_WRITERS = ("copy", "index_copy", "index_put", "scatter", "select_scatter", "slice_scatter")


def are_mixed(node: torch.fx.Node, constants: Collection[torch.fx.Node]) -> bool:
    """Tells whether an operator takes floats and gives values with a scale, or the reverse.

    Args:
      node: a call.
      constants: nodes that are compiled with what scales they have.
    """
    if not operators.gives_floats(node) or node in constants:
        return False
    given = [n for n in node.all_input_nodes if operators.gives_floats(n)]
    if any(_has_scale(n) != _has_scale(node) for n in given if n not in constants):
        return True
    # Numbers that a padding or a comparison is made of.
    return not _has_scale(node) and any(map(_has_scale, given))


def in_a_row(graph: GraphModule) -> GraphModule:
    """Quantizes what has several scales to the finest, and from there to the others.

    Upstream writes one scale on a node, that of its last user, and changes scales within a delegate
    only where one is dequantized and quantized to another.

    Args:
      graph: a quantized graph; it is changed.
    """
    inputs = graph.graph.find_nodes(op="placeholder")
    by_source: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    for node in graph.graph.find_nodes(op="call_function", target=_QUANTIZE):
        by_source.setdefault(_source(node.args[0]), []).append(node)
    for source, scaled in by_source.items():
        finest = min(scaled, key=lambda node: node.args[1])
        others = [node for node in scaled if node.args[1:] != finest.args[1:]]
        if not others or operators.packet(source).startswith("dequantize"):
            continue
        finest.update_arg(0, source)
        (inputs[-1] if source in inputs else source).append(finest)
        for other in others:
            with graph.graph.inserting_before(other):
                value = graph.graph.call_function(_DEQUANTIZE, (finest, *finest.args[1:]))
            value.meta = dict(source.meta)
            other.update_arg(0, value)
    graph.recompile()
    return graph


def in_results_scale(graph: GraphModule) -> GraphModule:
    """Quantizes what is written into a tensor to the scale of the result.

    QNN writes steps of another scale as they are.

    Args:
      graph: a quantized graph; it is changed.
    """
    for node in graph.graph.find_nodes(op="call_function", target=_DEQUANTIZE):
        for writer in [user for user in node.users if operators.packet(user) in _WRITERS]:
            scales = [user.args[1:] for user in writer.users if user.target is _QUANTIZE]
            if len(scales) == 1 and scales[0] != node.args[1:]:
                with graph.graph.inserting_before(writer):
                    value = rescaling.rounded(node, scales[0])
                writer.replace_input_with(node, value)
    graph.recompile()
    return graph


def in_given_scale(graph: GraphModule) -> GraphModule:
    """Quantizes what moves numbers, repeats or copies them, to the scale of these first.

    QNN takes the steps for those of the result's scale.

    Args:
      graph: a quantized graph; it is changed.
    """
    return rescaling.keep(graph, _MOVING, lambda given, own: given)


_MOVING = operators.MOVING_ONE | {
    "_upsample_nearest_exact2d",
    "detach_",
    "upsample_nearest1d",
    "upsample_nearest2d",
}


def centered(graph: GraphModule) -> GraphModule:
    """Gives the second factor of products of matrices a zero point in the middle of 8 bits.

    QNN (2.5.0 of onnxruntime-qnn) takes the zero point for the middle where it is no more than 16
    steps beside it, of sums, differences and products, and cuts off the steps at one end.

    Args:
      graph: a quantized graph; it is changed.
    """
    for node in graph.graph.find_nodes(op="call_function", target=_DEQUANTIZE):
        scale = _centered(*node.args[1:6])
        for product in [user for user in node.users if _is_second_factor(node, user)]:
            if scale != node.args[1:6]:
                with graph.graph.inserting_before(product):
                    value = rescaling.rounded(node, scale)
                product.update_arg(_PRODUCTS[operators.packet(product)], value)
    graph.recompile()
    return graph


# And the places of their second factors.
_PRODUCTS = {"baddbmm": 2, "bmm": 1, "linear": 1, "matmul": 1, "mm": 1}
_MIDDLE, _NEAR = 128, 16


def _is_second_factor(node: torch.fx.Node, product: torch.fx.Node) -> bool:
    place = _PRODUCTS.get(operators.packet(product))
    return place is not None and product.args[place] is node


def _centered(scale: float, zero: int, low: int, high: int, dtype: torch.dtype) -> rescaling.Scale:
    """The scale with a zero point in the middle that has all numbers of another."""
    beside = abs(zero - low - _MIDDLE)
    if dtype not in (torch.uint8, torch.int8) or not 0 < beside <= _NEAR:
        return scale, zero, low, high, dtype
    middle = low + _MIDDLE
    wide = max((zero - low) / (middle - low), (high - zero) / (high - middle))
    return scale * wide, middle, low, high, dtype


def _source(node: torch.fx.Node) -> torch.fx.Node:
    """The value that a node copies; upstream drops copies."""
    while operators.packet(node) in _COPIES:
        node = node.args[0]
    return node


def _has_scale(node: torch.fx.Node) -> bool:
    return QCOM_QUANT_ATTRS in node.meta
