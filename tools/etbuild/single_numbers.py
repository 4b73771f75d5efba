"""Numbers beside tensors without dimensions, stored as such tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.fx import GraphModule


def store_single_numbers(graph: GraphModule) -> GraphModule:
    """Stores numbers beside a tensor without dimensions as such tensors, so that results are, too.

    A pass of Arm's and Cortex-M's quantizers (ExecuTorch 1.5.1) gives them a dimension, and what
    follows fails where the result is written to a state that has none.

    Args:
      graph: before it is quantized.

    Returns:
      The graph itself, changed.
    """
    import torch
    from executorch.backends.arm._passes import ScalarsToAttributePass

    for node in list(graph.graph.nodes):
        value = node.meta.get("val")
        if node.target not in ScalarsToAttributePass.targeted_ops or value.dim() > 0:
            continue
        if not value.is_floating_point():
            continue
        if node.target is torch.ops.aten.rsub.Scalar:
            x, number, *factor = node.args
            node.target, node.args = torch.ops.aten.sub.Tensor, (number, x)
            node.kwargs = {"alpha": factor[0]} if factor else node.kwargs
        for place, number in enumerate(node.args[:2]):
            if isinstance(number, int | float):
                name = f"_number_{node.name}_{place}"
                graph.register_buffer(name, torch.tensor(number, dtype=value.dtype))
                with graph.graph.inserting_before(node):
                    stored = graph.graph.get_attr(name)
                stored.meta = {**node.meta, "val": value}
                node.update_arg(place, stored)
    graph.recompile()
    return graph
