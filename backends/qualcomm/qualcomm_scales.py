"""Operators in which values with a scale meet values without one, which QNN computes wrong.

Upstream writes a scale on the node whose values have one, and drops the operators that quantize and
dequantize. QNN's compiler then takes an operator between floats and integers as one that keeps
bytes: a view of floats whose result has a scale. Here such an operator stays with ExecuTorch, so
that what has a scale is quantized where it enters a delegate, and dequantized where it leaves it.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS


def are_mixed(node: torch.fx.Node, constants: Collection[torch.fx.Node]) -> bool:
    """Tells whether an operator takes floats and gives values with a scale, or the reverse.

    Args:
      node: a call.
      constants: nodes that are compiled with what scales they have.
    """
    if not _is_float(node) or node in constants:
        return False
    given = [n for n in node.all_input_nodes if _is_float(n) and n not in constants]
    return any(_has_scale(n) != _has_scale(node) for n in given)


def _is_float(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    return any(isinstance(v, torch.Tensor) and v.is_floating_point() for v in values)


def _has_scale(node: torch.fx.Node) -> bool:
    return QCOM_QUANT_ATTRS in node.meta
