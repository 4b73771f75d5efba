"""Passes on the graphs that Vulkan gets: one of ours, and a correction of upstream's."""

from __future__ import annotations

from typing import Any

import torch
from etlower import operators
from etlower.replacing import replace
from executorch.backends.vulkan._passes import SqueezeUnsqueezeInputs
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass, PassResult
from torch.fx import GraphModule, Node

_REDUCTIONS = ("aten.amax.default", "aten.amin.default", "aten.mean.dim", "aten.sum.dim_IntList")
_SQUEEZE = exir_ops.edge.aten.squeeze_copy.dims


class KeptDimensions(ExportPass):  # type: ignore[misc]
    """Has reductions of the last dimension keep it, and drops it behind them.

    The runtime's own dropping goes through 16-bit floats, which end at 65,504.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Changes a graph in place."""
        nodes = [node for node in graph_module.graph.nodes if _drops_last(node)]
        for node in nodes:
            x, dims = node.args[:2]
            with graph_module.graph.inserting_before(node):
                given = (x, list(dims), True)
                kept = graph_module.graph.call_function(node.target, given, node.kwargs)
            kept.meta = {**node.meta, "val": node.meta["val"].unsqueeze(-1)}
            # The node stays, as the program's signature has its name.
            node.target, node.args, node.kwargs = _SQUEEZE, (kept, list(dims)), {}
        graph_module.recompile()
        return PassResult(graph_module, bool(nodes))


def _drops_last(node: Node) -> bool:
    if operators.name(node) not in _REDUCTIONS or not isinstance(node.meta["val"], torch.Tensor):
        return False
    x, dims, keeps = (*node.args, None, False)[:3]
    last = x.meta["val"].dim() - 1
    return isinstance(dims, list | tuple) and not keeps and [*dims] in ([-1], [last])


def install() -> None:
    """Has, for this process, upstream's pass on activations leave shapes that vary.

    It drops dimensions of one (ExecuTorch 1.5.1) by lists of sizes that the program's file lacks.
    """
    replace(SqueezeUnsqueezeInputs, "should_squeeze", _squeezes)


def _squeezes(inner: Any, self: Any, op: Any, shape: Any) -> bool:
    return all(isinstance(size, int) for size in shape) and bool(inner(self, op, shape))
