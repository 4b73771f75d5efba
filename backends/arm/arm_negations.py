"""Negations in the scale of what they negate, which TOSA's operator has no other one for.

Upstream's quantizer shares the scale, but what else reads the result may share it with more. The
converter (ExecuTorch 1.5.1) then takes the steps of one scale for those of the other.
"""

from __future__ import annotations

import torch
from etlower import operators
from torch.fx import GraphModule

_QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
_DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default


def keep_scales(graph: GraphModule) -> GraphModule:
    """Quantizes the result of a negation to its input's scale first, then to its own.

    Args:
      graph: a quantized graph; it is changed.
    """
    for node in graph.graph.find_nodes(op="call_function", target=_QUANTIZE):
        negation = node.args[0]
        if operators.packet(negation) != "neg" or negation.args[0].target is not _DEQUANTIZE:
            continue
        scale, zero_point, low, high, dtype = negation.args[0].args[1:6]
        if scale == node.args[1]:
            continue
        # TOSA has no zero points but for 8 bits.
        mirrored = low + high - zero_point if dtype == torch.int8 else 0
        given = (scale, mirrored, low, high, dtype)
        with graph.graph.inserting_before(node):
            steps = graph.graph.call_function(_QUANTIZE, (negation, *given))
            value = graph.graph.call_function(_DEQUANTIZE, (steps, *given))
        steps.meta, value.meta = dict(negation.meta), dict(negation.meta)
        node.update_arg(0, value)
    graph.recompile()
    return graph
