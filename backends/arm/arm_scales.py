"""Negations and moved values in the scale of what they are given: TOSA's operators have no other.

Upstream's quantizer shares the scale, but what else reads the result may share it with more. The
converter (ExecuTorch 1.5.1) then takes the steps of one scale for those of the other.
"""

from __future__ import annotations

import torch
from etlower import operators, rescaling
from torch.fx import GraphModule


def keep_scales(graph: GraphModule) -> GraphModule:
    """Quantizes the result of a negation or a move to its input's scale first, then to its own.

    Args:
      graph: a quantized graph; it is changed.
    """
    graph = rescaling.keep(graph, operators.MOVING_ONE, lambda given, _: given)
    return rescaling.keep(graph, {"neg"}, _of_negation)


def _of_negation(given: rescaling.Scale, own: rescaling.Scale) -> rescaling.Scale:
    scale, zero_point, low, high, dtype = given
    if scale == own[0]:
        return own
    # TOSA has no zero points but for 8 bits.
    mirrored = low + high - zero_point if dtype == torch.int8 else 0
    return scale, mirrored, low, high, dtype
