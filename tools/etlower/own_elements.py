"""Comparisons of a tensor with elements of its own, as `x == x.amax(1, True)`.

Where a backend rounds what some operators read and not what others do, a number is compared with
itself, rounded: ExecuTorch's own kernels pick the elements and compare them. So OpenVINO (2025.4)
does before products and resizing on processors with bfloat16, and every backend that computes in
16-bit floats a part of the two alone. So do two scales of 8 bits, QNN's and Cadence's quantizers'.
"""

from __future__ import annotations

import operator

from torch.fx import Graph, Node

from etlower import operators

_PAIR = 2
_COMPARISONS = frozenset({"eq", "ge", "gt", "le", "lt", "ne"})
# Each element of their results is one of what they are given, or a number of the model.
_PICKING = operators.MOVING | frozenset(
    {
        *("_clone_dim_order", "_to_copy", "_to_dim_order_copy", "amax", "amin", "clamp"),
        *("constant_pad_nd", "dequantize_per_tensor", "hardtanh", "masked_fill", "max"),
        *("max_pool2d", "max_pool2d_with_indices", "maximum", "min", "minimum"),
        *("quantize_per_tensor", "relu", "upsample_nearest2d", "where"),
    }
)


def compared(graph: Graph) -> set[Node]:
    """Finds comparisons of own elements, and what picks the elements that they compare.

    Args:
      graph: of a program in ATen's or the edge dialect.
    """
    found: set[Node] = set()
    for node in graph.nodes:
        if operators.packet(node) not in _COMPARISONS or len(node.all_input_nodes) < _PAIR:
            continue
        first, second = map(_origins, node.all_input_nodes)
        if first & second:
            found |= {node, *filter(_picks, first ^ second)}
    return found


def _origins(node: Node) -> set[Node]:
    """A tensor, and those that its elements come from."""
    seen, queue = {node}, [node]
    for each in queue:
        more = [n for n in each.all_input_nodes if n not in seen] if _picks(each) else []
        seen.update(more)
        queue += more
    return seen


def _picks(node: Node) -> bool:
    packet = operators.packet(node)
    return node.target is operator.getitem or packet.removesuffix("_copy") in _PICKING
