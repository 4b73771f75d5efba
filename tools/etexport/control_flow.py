"""Results of `torch.cond` that stay what they are.

ExecuTorch 1.5.1 plans one region of memory for the branches of all `cond`s of a graph, and gives a
result the memory that its branch wrote: the next `cond` overwrites it, and a view of it, which is
planned elsewhere, never sees it. Such a result is copied where it comes into being. Programs whose
results are safe keep the bytes that upstream's API writes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

import torch
from executorch.exir.dialects._ops import ops
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

_VIEWS = (torch.ops.aten.view_copy.default, ops.edge.aten.view_copy.default)


class CopyResults(PassBase):
    """Copies results of `torch.cond` that ExecuTorch would lose; for graphs of the edge dialect."""

    def call(self, graph_module: GraphModule) -> PassResult:
        """Changes the graph and those of its branches."""
        modified = False
        for module in graph_module.modules():
            if isinstance(module, GraphModule):
                endangered = list(_endangered(module))
                for result in endangered:
                    _copy(result)
                if endangered:
                    module.recompile()
                    modified = True
        return PassResult(graph_module, modified)


def _endangered(module: GraphModule) -> Iterator[Node]:
    """Results that are viewed, or used by or after a later `cond`."""
    nodes = list(module.graph.nodes)
    position = {node: number for number, node in enumerate(nodes)}
    calls = [node for node in nodes if node.target is torch.ops.higher_order.cond]
    for number, call in enumerate(calls):
        following = position[calls[number + 1]] if number + 1 < len(calls) else len(nodes)
        for result in call.users:
            if result.target is operator.getitem and any(
                user.target in _VIEWS or position[user] >= following for user in result.users
            ):
                yield result


def _copy(result: Node) -> None:
    graph = result.graph
    with graph.inserting_after(result):
        copy = graph.call_function(ops.edge.aten.clone.default, (result,))
    copy.meta = {
        k: v for k, v in result.meta.items() if k in ("val", "stack_trace", "nn_module_stack")
    }
    result.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy)
