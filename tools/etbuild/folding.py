"""Stores what a graph computes of weights and constants alone, before it is quantized."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

# Bytes that a result may have more than what it is computed of: a large mask stays a few operators.
_GROWTH = 2**20
# Tensors of a number, with the shape or the type of another one.
_FILLED = (
    *("full_like.default", "ones_like.default", "zeros_like.default"),
    *("new_full.default", "new_ones.default", "new_zeros.default"),
)
# Operators that may give an input itself or a view of it, which their schemas don't say.
_UNDECLARED_VIEWS = (
    *("alpha_dropout", "dropout", "feature_alpha_dropout", "feature_dropout", "type_as"),
    *("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "meshgrid"),
    *("_unsafe_view", "sum_to_size"),
)


def fold_constants(graph: GraphModule) -> GraphModule:
    """Stores results that depend on no input: a pass for `QuantizationRecipe.pre_prepare_passes`.

    Quantizers take a layer's weight for one only where it is stored, not where it is a part of
    another, as in attention to another sequence. Masks and positions that a graph computes they
    quantize, or their compilers fail on them. A graph that is trained needs the
    operators: leave the pass out where `RecipeContext.qat` is set.

    Args:
      graph: of ATen operators, before it is quantized; it is changed.

    Returns:
      The graph.

    Example:

        QuantizationRecipe(quantizers=[quantizer], pre_prepare_passes=[fold_constants])
    """
    import torch

    before, values = _stored(graph), _values(graph)
    for node, value in values.items():
        if node.op == "get_attr" or not isinstance(value, torch.Tensor):
            continue
        if all(user in values for user in node.users):
            continue
        name = f"_constant_{node.name}"
        graph.register_buffer(name, value.detach().clone())
        with graph.graph.inserting_before(node):
            stored = graph.graph.get_attr(name)
        stored.meta = dict(node.meta)
        node.replace_all_uses_with(stored)
    graph.graph.eliminate_dead_code()
    for path in sorted(before - _stored(graph)):
        owner, _, name = path.rpartition(".")
        delattr(graph.get_submodule(owner), name)
    graph.recompile()
    return graph


def _stored(graph: GraphModule) -> set[str]:
    """The tensors that a graph reads, by their paths."""
    return {str(node.target) for node in graph.graph.nodes if node.op == "get_attr"}


def _values(graph: GraphModule) -> dict[Node, Any]:
    """The values of nodes that depend on no input."""
    import torch
    from torch.utils._pytree import tree_map_only

    known: dict[Node, Any] = {}
    changed = _changed(graph)
    for node in graph.graph.nodes:
        if node.op == "get_attr" and node not in changed:
            known[node] = operator.attrgetter(str(node.target))(graph)
        elif node.op == "call_function" and _is_function(node.target) and node not in changed:
            given = node.all_input_nodes
            values = known
            if str(node.target).removeprefix("aten.") in _FILLED and _is_static(*given):
                values = {each: _unfilled(each) for each in given}
            if all(each in values for each in given) and _fits(node):
                args, kwargs = tree_map_only(torch.fx.Node, values.get, (node.args, node.kwargs))
                with torch.no_grad():
                    known[node] = node.target(*args, **kwargs)
    return known


def _unfilled(node: Node) -> Any:
    """A tensor in the form of a node's."""
    import torch

    value = node.meta["val"]
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)


def _is_static(*nodes: Node) -> bool:
    """Tells whether no size of tensors varies."""
    return all(isinstance(size, int) for node in nodes for size in node.meta["val"].shape)


def _fits(node: Node) -> bool:
    """Returns whether a result is hardly larger than what it is computed of."""
    return _bytes(node) <= sum(map(_bytes, node.all_input_nodes)) + _GROWTH


def _bytes(node: Node) -> int:
    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    return sum(v.numel() * v.element_size() for v in values if hasattr(v, "element_size"))


def _changed(graph: GraphModule) -> set[Node]:
    """Nodes whose memory the graph writes to, directly or through views of it."""
    left = [
        given
        for node in graph.graph.nodes
        if node.op == "call_function" and getattr(node.target, "_schema", None) is not None
        for argument, given in zip(node.target._schema.arguments, node.args, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write
        if hasattr(given, "all_input_nodes")
    ]
    found: set[Node] = set()
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += _aliased(node)
    return found


def _aliased(node: Node) -> list[Node]:
    """The nodes in whose memory the result of a node may lie."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.name.rpartition("::")[2] in _UNDECLARED_VIEWS:
        return node.all_input_nodes
    return [
        given
        for argument, given in zip(schema.arguments, node.args, strict=False)
        if argument.alias_info is not None and hasattr(given, "all_input_nodes")
    ]


def _is_function(target: Any) -> bool:
    """Tells whether one of ATen's operators gives equal results for equal inputs, and no more.

    Others unpack weights that are quantized already, which delegates look for.
    """
    import torch

    if target is operator.getitem:
        return True
    schema = getattr(target, "_schema", None)
    random = torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())
    is_atens = schema is not None and schema.name.startswith("aten::")
    return is_atens and not schema.is_mutable and not random
