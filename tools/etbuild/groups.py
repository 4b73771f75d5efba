"""Transposed convolutions in groups as one convolution a group, for backends without such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

# Groups that become convolutions of their own: more would cost more than they save.
MOST_GROUPS = 16


def split_groups(graph: GraphModule) -> GraphModule:
    """Writes out transposed convolutions in groups: a pass for `QuantizationRecipe`.

    Each group becomes a convolution with its part of the weight; `fold_constants` stores the parts.

    Args:
      graph: of ATen operators, before it is quantized; it is changed.
    """
    import torch

    aten = torch.ops.aten
    kinds = (aten.conv_transpose1d.default, aten.conv_transpose2d.input)
    for node in list(graph.graph.nodes):
        if node.target not in kinds:
            continue
        given = [*node.args, *[None] * (8 - len(node.args))]
        groups = given[6] or 1
        if not 1 < groups <= MOST_GROUPS:
            continue
        x, weight, bias, *settings = given
        with graph.graph.inserting_before(node):
            parts = [
                _call(node, node.target, *of_group, *_of_one_group(settings))
                for of_group in zip(
                    _parts(node, x, groups, 1),
                    _parts(node, weight, groups, 0),
                    _parts(node, bias, groups, 0) if bias is not None else [None] * groups,
                    strict=True,
                )
            ]
            node.replace_all_uses_with(_call(node, aten.cat.default, parts, 1))
        graph.graph.erase_node(node)
    graph.recompile()
    return graph


def _of_one_group(settings: Sequence[Any]) -> list[Any]:
    """Stride, padding, output padding, groups and dilation, without what is not given."""
    defaults = [[1], [0], [0], 1, [1]]
    filled = [d if given is None else given for given, d in zip(settings, defaults, strict=True)]
    return [*filled[:3], 1, filled[4]]


def _parts(node: Node, of: Node, groups: int, dim: int) -> list[Node]:
    import torch

    size = of.meta["val"].shape[dim] // groups
    return [
        _call(node, torch.ops.aten.slice.Tensor, of, dim, n * size, (n + 1) * size)
        for n in range(groups)
    ]


def _call(node: Node, target: Any, *args: Any) -> Node:
    """A call before a node, with what passes want to know of it."""
    from torch.utils._pytree import tree_map_only

    made = node.graph.call_function(target, args)
    values = tree_map_only(type(node), lambda n: n.meta["val"], args)
    made.meta = {**node.meta, "val": target(*values)}
    return made
