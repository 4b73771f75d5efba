"""Moved values in the scale that they had before.

XNNPACK's runtime refuses permutations and reshapes from one scale to another when it loads a
program. Its quantizer (ExecuTorch 1.5.1) shares scales for some of torch's names of them only.
"""

from __future__ import annotations

from etlower import operators, rescaling
from torch.fx import GraphModule

# A padding's number may lie outside of the first scale.
_MOVING = operators.MOVING - {"pad"}


def keep_scales(graph: GraphModule) -> GraphModule:
    """Quantizes what is moved between two scales to the first one first.

    Args:
      graph: a quantized graph; it is changed.
    """
    return rescaling.keep(graph, _MOVING, lambda given, _: given)
