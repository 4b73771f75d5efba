"""Results in the scale of what an operator is given, where a backend's operator has only one.

What a result is joined with may give it another scale than its input's. It is quantized to that of
the input first, and from there to its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

_QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
_DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default
# Of `quantize_per_tensor` behind the values: scale, zero point, the least and largest step, type.
Scale = tuple[Any, ...]


def keep(graph: GraphModule, of_result: Callable[[Node, Scale], Scale | None]) -> GraphModule:
    """Quantizes results to a scale that follows from the input's first.

    Args:
      graph: a quantized graph; it is changed.
      of_result: the scale that the result of a call has, given that of its first input; None: any.
        Calls behind one another are asked in turn.

    Example:
      keep(graph, lambda node, scale: scale if "permute" in node.name else None)
    """

    def scale_of(call: Node) -> Scale | None:
        given = call.args[0] if call.op == "call_function" and call.args else None
        if not isinstance(given, Node):
            return None
        scale = tuple(given.args[1:6]) if given.target is _DEQUANTIZE else scale_of(given)
        return None if scale is None else of_result(call, scale)

    for node in graph.graph.find_nodes(op="call_function", target=_QUANTIZE):
        call = node.args[0]
        scale = scale_of(call)
        if scale is None or scale == tuple(node.args[1:]):
            continue
        with graph.graph.inserting_before(node):
            steps = graph.graph.call_function(_QUANTIZE, (call, *scale))
            value = graph.graph.call_function(_DEQUANTIZE, (steps, *scale))
        steps.meta, value.meta = dict(call.meta), dict(call.meta)
        node.update_arg(0, value)
    graph.recompile()
    return graph
