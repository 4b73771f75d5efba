"""Core ML's operator for hardtanh with integer bounds, which coremltools 9.0 refuses.

ReLU6 becomes hardtanh(0, 6) where a backend that comes after Core ML in a recipe doesn't keep it.
"""

from __future__ import annotations

from typing import Any

from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.frontend.torch.ops import _get_inputs
from coremltools.converters.mil.frontend.torch.torch_op_registry import register_torch_op


def install() -> None:
    """Replaces coremltools' operator; more than once does no harm."""
    register_torch_op(hardtanh, override=True)


def hardtanh(context: Any, node: Any) -> None:
    """As coremltools', with bounds of the input's type; ReLU6 by its own name."""
    x, low, high = _get_inputs(context, node, expected=3)
    bounds = float(low.val), float(high.val)
    if bounds == (0.0, 6.0):
        made = mb.relu6(x=x, name=node.name)
    else:
        made = mb.clip(x=x, alpha=bounds[0], beta=bounds[1], name=node.name)
    context.add(made)
