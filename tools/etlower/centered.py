"""Normalizations of numbers that are far from zero, beside how much they vary.

ExecuTorch's kernels (1.5.1) take a variance for the mean of squares less the square of the mean:
of numbers such as 100.1 and 99.9, whose squares agree in their first six digits, nothing is left of
it, and it may be below zero, so that the result is NaN. They get differences from the mean, whose
normalization is the same.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportPass
from torch._dispatch.python import enable_python_dispatcher
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassResult

from etlower import operators

_LAYERS, _GROUPS = "aten.native_layer_norm.default", "aten.native_group_norm.default"
# Instance norms: upstream makes them of batches that have no statistics.
_BATCHES = "aten._native_batch_norm_legit.no_stats"
_VIEW = ops.edge.aten.view_copy.default


class Centered(ExportPass):
    """Calls kernels of normalizations with differences from means; of the edge dialect."""

    def call(self, graph_module: GraphModule) -> PassResult:
        """Changes the graph and those of its branches and loops."""
        calls = [
            (module, node)
            for module, node in operators.walk(graph_module)
            if operators.name(node) in (_BATCHES, _GROUPS, _LAYERS)
            and operators.values(node)[0].numel() != 0
        ]
        for module, node in calls:
            with module.graph.inserting_before(node):
                means = _means(node)
                spread = _spread(node, means) if operators.name(node) == _GROUPS else means
                centered = _called(node, ops.edge.aten.sub.Tensor, node.args[0], spread)
                for read in _read_means(node):
                    read.replace_all_uses_with(_given(node, means))
            # What it normalizes may be its weights, too.
            node.update_arg(0, centered)
            module.recompile()
        return PassResult(graph_module, bool(calls))


def _read_means(node: Node) -> list[Node]:
    """Readers of the means that a call gives as well; of differences from them they are zero."""
    means = [user for user in node.users if user.target is operator.getitem and user.args[1] == 1]
    return [mean for mean in means if mean.users]


def _given(node: Node, means: Node) -> Node:
    """Means in the shape in which a call gives them."""
    name, x = operators.name(node), node.args[0].meta["val"]
    if name == _LAYERS:
        return means
    return _called(node, _VIEW, means, [x.shape[1]] if name == _BATCHES else [-1, node.args[6]])


def _means(node: Node) -> Node:
    """Means of what a call normalizes together: [batch, groups, 1] of groups, else for each."""
    x, rank = node.args[0], node.args[0].meta["val"].dim()
    if operators.name(node) == _LAYERS:
        return _mean(node, x, range(rank - len(node.args[1]), rank))
    if operators.name(node) == _BATCHES:
        return _mean(node, x, [0, *range(2, rank)])
    # Those of the channels' own means.
    channels, groups = x.meta["val"].shape[1], node.args[6]
    means = _mean(node, x, range(2, rank)) if rank > 2 else x
    return _mean(node, _called(node, _VIEW, means, [-1, groups, channels // groups]), [2])


def _spread(node: Node, means: Node) -> Node:
    """Means of groups, for each of the channels."""
    channels, groups = node.args[0].meta["val"].shape[1], node.args[6]
    trailing = [1] * (node.args[0].meta["val"].dim() - 2)
    each = [-1, groups, channels // groups]
    expanded = _called(node, ops.edge.aten.expand_copy.default, means, each)
    return _called(node, _VIEW, expanded, [-1, channels, *trailing])


def _mean(node: Node, x: Any, dims: Iterable[int]) -> Node:
    """Means over dimensions, which stay as dimensions of one."""
    return _called(node, ops.edge.aten.mean.dim, x, list(dims), True)


def _called(node: Node, target: Any, *args: Any) -> Node:
    """A call at a node's place."""
    made = node.graph.call_function(target, args)
    values = [each.meta["val"] if isinstance(each, Node) else each for each in args]
    # Otherwise sizes that vary become the example's.
    with enable_python_dispatcher():
        made.meta = {**node.meta, "val": target(*values)}
    return made
