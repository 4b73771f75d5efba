"""Transposed convolutions in the forms that backends have kernels for.

Weights are rearranged by operators in the graph; `fold_constants` stores the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from etbuild.graph_calls import call

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

# Groups that become convolutions of their own: more would cost more than they save.
MOST_GROUPS = 16


def split_groups(graph: GraphModule, least_channels: int = 1) -> GraphModule:
    """Writes out transposed convolutions in groups: a pass for `QuantizationRecipe`.

    Each group becomes a convolution with its part of the weight.

    Args:
      graph: of ATen operators, before it is quantized; it is changed.
      least_channels: groups that take less of the input stay.
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
        if least_channels > 1 and weight.meta["val"].shape[0] < groups * least_channels:
            continue
        with graph.graph.inserting_before(node):
            parts = [
                call(node, node.target, *of_group, *_of_one_group(settings))
                for of_group in zip(
                    _parts(node, x, groups, 1),
                    _parts(node, weight, groups, 0),
                    _parts(node, bias, groups, 0) if bias is not None else [None] * groups,
                    strict=True,
                )
            ]
            node.replace_all_uses_with(call(node, aten.cat.default, parts, 1))
        graph.graph.erase_node(node)
    graph.recompile()
    return graph


def fill_weights(graph: GraphModule) -> GraphModule:
    """Writes out output paddings and dilations: a pass for `QuantizationRecipe`.

    Zeros at a weight's end make the result as much larger as an output padding; zeros between its
    numbers are a dilation. A convolution over rows becomes one over pictures of one line, and one
    without a batch gets a batch of one.

    Args:
      graph: of ATen operators, before it is quantized; it is changed.
    """
    import torch

    aten = torch.ops.aten
    ranks = {aten.conv_transpose1d.default: 1, aten.conv_transpose2d.input: _PICTURE}
    for node in list(graph.graph.nodes):
        if node.target in ranks:
            with graph.graph.inserting_before(node):
                node.replace_all_uses_with(_filled(node, ranks[node.target]))
            graph.graph.erase_node(node)
    graph.recompile()
    return graph


def _filled(node: Node, rank: int) -> Node:
    """The convolution that replaces one over `rank` dimensions."""
    import torch

    aten = torch.ops.aten
    x, weight, bias, *settings = [*node.args, *[None] * (8 - len(node.args))]
    stride, padding, more, groups, dilation = settings
    steps, widths, more, apart = (
        _of_each(given, default, rank)
        for given, default in ((stride, 1), (padding, 0), (more, 0), (dilation, 1))
    )
    for place in range(rank):
        weight = _spread(node, weight, 2 + place, apart[place])
        weight = _padded(node, weight, 2 + place, more[place])
    added = [0] if x.meta["val"].dim() == rank + 1 else []
    if rank < _PICTURE:
        weight = call(node, aten.unsqueeze.default, weight, 2)
        steps, widths, added = [1, *steps], [0, *widths], [*added, 2]
    for dim in added:
        x = call(node, aten.unsqueeze.default, x, dim)
    made = call(
        node,
        aten.conv_transpose2d.input,
        *(x, weight, bias, steps, widths, [0, 0], groups or 1, [1, 1]),
    )
    for dim in reversed(added):
        made = call(node, aten.squeeze.dim, made, dim)
    return made


# Dimensions that a convolution over pictures moves along.
_PICTURE = 2


def _of_each(given: Any, default: int, rank: int) -> list[int]:
    """A setting for each dimension."""
    values = given or [default]
    return list(values) * rank if len(values) < rank else list(values)


def _spread(node: Node, weight: Node, dim: int, step: int) -> Node:
    """A weight with zeros between its numbers along a dimension, `step` apart."""
    import torch

    if step == 1:
        return weight
    aten = torch.ops.aten
    shape = list(weight.meta["val"].shape)
    shape[dim] *= step
    apart = call(node, aten.unsqueeze.default, weight, dim + 1)
    apart = _padded(node, apart, dim + 1, step - 1)
    whole = call(node, aten.reshape.default, apart, shape)
    return call(node, aten.slice.Tensor, whole, dim, 0, shape[dim] - step + 1)


def _padded(node: Node, weight: Node, dim: int, count: int) -> Node:
    """A weight with zeros behind its numbers along a dimension."""
    import torch

    if count == 0:
        return weight
    widths = [0, 0] * (weight.meta["val"].dim() - 1 - dim) + [0, count]
    return call(node, torch.ops.aten.constant_pad_nd.default, weight, widths, 0.0)


def _of_one_group(settings: Sequence[Any]) -> list[Any]:
    """Stride, padding, output padding, groups and dilation, without what is not given."""
    defaults = [[1], [0], [0], 1, [1]]
    filled = [d if given is None else given for given, d in zip(settings, defaults, strict=True)]
    return [*filled[:3], 1, filled[4]]


def _parts(node: Node, of: Node, groups: int, dim: int) -> list[Node]:
    import torch

    size = of.meta["val"].shape[dim] // groups
    return [
        call(node, torch.ops.aten.slice.Tensor, of, dim, n * size, (n + 1) * size)
        for n in range(groups)
    ]
