"""Results in the scale of what an operator is given, where a backend's operator has only one.

What a result is joined with may give it another scale than its input's. It is quantized to that of
the input first, and from there to its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import torch
from torch.fx import GraphModule, Node

from etlower import operators

_QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
_DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default
# Of `quantize_per_tensor` behind the values: scale, zero point, the least and largest step, type.
Scale = tuple[Any, ...]


def keep(
    graph: GraphModule, packets: Container[str], of_result: Callable[[Scale, Scale], Scale]
) -> GraphModule:
    """Quantizes results to a scale that follows from the input's first.

    Args:
      graph: a quantized graph; it is changed.
      packets: names of the operators, as `operators.packet` gives them, that have one scale.
      of_result: the scale that a result gets first, of that of the first input and its own; its
        own: it stays. Calls behind one another are asked in turn.

    Example:
      keep(graph, {"permute"}, lambda given, own: given)
    """
    for node in graph.graph.find_nodes(op="call_function", target=_QUANTIZE):
        first, own, count = node.args[0], tuple(node.args[1:]), 0
        while operators.packet(first) in packets and isinstance(first.args[0], Node):
            first, count = first.args[0], count + 1
        if first.target is not _DEQUANTIZE:
            continue
        scale = tuple(first.args[1:6])
        for _ in range(count):
            scale = of_result(scale, own)
        if count and scale != own:
            with graph.graph.inserting_before(node):
                node.update_arg(0, rounded(node.args[0], scale))
    graph.recompile()
    return graph


def rounded(node: Node, scale: Scale) -> Node:
    """Quantizes a value and dequantizes it, at the graph's place for new calls.

    Args:
      node: of a quantized graph.
      scale: to which it is quantized.

    Returns:
      The value behind both.
    """
    steps = node.graph.call_function(_QUANTIZE, (node, *scale))
    value = node.graph.call_function(_DEQUANTIZE, (steps, *scale))
    steps.meta, value.meta = dict(node.meta), dict(node.meta)
    return value
