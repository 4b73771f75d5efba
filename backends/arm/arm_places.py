"""Places of 64 bits for operators that take no others, in a graph that is to be quantized.

Upstream's quantizer for Arm narrows all whole numbers to 32 bits, and knows of one operator that
needs 64 (ExecuTorch 1.5.1). torch computes the graph while it is calibrated, and refuses others.
"""

from __future__ import annotations

from typing import Any

import torch
from etlower.replacing import replace
from executorch.backends.arm._passes import InsertInt32CastsAfterInt64PlaceholdersPass
from torch.fx import Node

# Which of their inputs has places or classes, by operator.
_PLACES = {
    **dict.fromkeys(("cross_entropy_loss", "max_unpool2d", "max_unpool3d", "multi_margin_loss"), 1),
    **dict.fromkeys(("multilabel_margin_loss", "nll_loss", "nll_loss2d", "nll_loss_nd"), 1),
    **dict.fromkeys(("put", "put_", "take", "take_along_dim"), 1),
    **dict.fromkeys(("index_copy", "index_copy_", "index_fill", "index_fill_"), 2),
}
_COPY = torch.ops.dim_order_ops._to_dim_order_copy.default


def install() -> None:
    """Has, for this process, upstream's pass widen them again."""
    replace(
        InsertInt32CastsAfterInt64PlaceholdersPass, "_insert_callsite_i32_to_i64_casts", _insert
    )


def _insert(inner: Any, self: Any, graph_module: torch.fx.GraphModule) -> bool:
    return widen(graph_module) | bool(inner(self, graph_module))


def widen(graph_module: torch.fx.GraphModule) -> bool:
    """Casts whole numbers to 64 bits where such an operator reads them.

    Args:
      graph_module: of torch's operators; it is changed.

    Returns:
      Whether it was changed.
    """
    graph, found = graph_module.graph, False
    for node in list(graph.nodes):
        name, _, rest = str(node.target).removeprefix("aten.").partition(".")
        place = _PLACES.get(name) if node.op == "call_function" and "." not in rest else None
        if place is None or not isinstance(node.args[place], Node):
            continue
        given = node.args[place]
        value = given.meta.get("val")
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
            continue
        with graph.inserting_before(node):
            cast = graph.call_function(_COPY, (given,), {"dtype": torch.int64})
        if isinstance(value, torch.Tensor):
            cast.meta["val"] = value.to(torch.int64)
        node.update_arg(place, cast)
        found = True
    return found
