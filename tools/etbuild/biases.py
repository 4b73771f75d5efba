"""Biases and weights of layers that a method calls more than once, for quantizers.

These know one scale of a bias, and fold a batch norm into the weights of the layer before, if these
are parameters, and no transposed convolution's in groups.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

# Operator to the place of its bias.
_PLACES = {
    "addmm": 0,
    "conv1d": 2,
    "conv2d": 2,
    "conv3d": 2,
    "conv_transpose1d": 2,
    "conv_transpose2d": 2,
    "conv_transpose3d": 2,
    "convolution": 2,
    "linear": 2,
}


def own_biases(graph: GraphModule) -> GraphModule:
    """Gives each call of a layer a bias of its own: a pass for `QuantizationRecipe`.

    Kernels take a bias in the scale of the input times that of the weight. Where several calls
    share it, upstream's quantizers and compilers know one scale, of one of the calls, and the
    others are wrong, in silence.

    Args:
      graph: of ATen operators, before it is quantized; it is changed.
    """
    for bias in [node for node in graph.graph.nodes if node.op == "get_attr"]:
        for number, call in enumerate([n for n in bias.users if _bias(n) is bias][1:], 1):
            own = _own(graph, bias, f"{number}", call)
            place = _PLACES[_operator(call)]
            if place < len(call.args):
                call.update_arg(place, own)
            else:
                call.update_kwarg("bias", own)
    graph.recompile()
    return graph


def own_weights(graph: GraphModule) -> GraphModule:
    """Gives each call of a layer weights of its own, if batch norms follow its calls.

    torchao folds each batch norm into the weights before it. Those of a layer that is called twice
    would be folded twice, in silence, and so would those of a call whose result others take, too.

    Args:
      graph: of ATen operators, before it is quantized; it is changed.
    """
    for weight in [node for node in graph.graph.nodes if node.op == "get_attr"]:
        calls = [user for user in weight.users if _PLACES.get(_operator(user)) == 2]
        calls = [call for call in calls if call.args[1] is weight]
        norms = [user for call in calls for user in call.users if "batch_norm" in _operator(user)]
        if not norms:
            continue
        for norm in norms:
            call = norm.args[0]
            if len(call.users) > 1:
                with graph.graph.inserting_before(norm):
                    again = graph.graph.node_copy(call)
                norm.replace_input_with(call, again)
                calls.append(again)
        for number, call in enumerate(calls[1:], 1):
            call.update_arg(1, _own(graph, weight, f"call{number}", call))
            bias = _bias(call)
            if bias is not None and len(call.args) > 2:
                call.update_arg(2, _own(graph, bias, f"call{number}", call))
    graph.recompile()
    return graph


def own_row_weights(graph: GraphModule) -> GraphModule:
    """Gives each convolution over rows weights of its own: a pass for `QuantizationRecipe`.

    Of two calls that share them upstream's quantizers may leave one in float.

    Args:
      graph: of ATen operators, before it is quantized; it is changed.
    """
    for weight in [node for node in graph.graph.nodes if node.op == "get_attr"]:
        calls = [user for user in weight.users if _PLACES.get(_operator(user)) == 2]
        calls = [call for call in calls if call.args[1] is weight and "1d" in _operator(call)]
        for number, call in enumerate(calls[1:], 1):
            call.update_arg(1, _own(graph, weight, f"row{number}", call))
    graph.recompile()
    return graph


def fold_norms(graph: GraphModule) -> GraphModule:
    """Folds batch norms into the convolutions before them that torchao fails with.

    Args:
      graph: of ATen operators in which each call of a layer has its own weights, before it is
        quantized; it is changed.
    """
    for norm in [node for node in graph.graph.nodes if _operator(node) == "batch_norm"]:
        call = norm.args[0]
        is_training = norm.args[5]
        if is_training or "conv" not in _operator(call) or len(call.users) > 1:
            continue
        layer, statistics = call.args[1:3], norm.args[1:5]
        tensors = [value for value in (*layer, *statistics) if value is not None]
        is_known = all(getattr(value, "op", "") == "get_attr" for value in tensors)
        if is_known and not _folds(graph, call):
            _fold(graph, call, norm)
    graph.recompile()
    return graph


def _folds(graph: GraphModule, call: Node) -> bool:
    """Tells whether torchao folds a batch norm into a convolution."""
    names = {name for name, _ in graph.named_parameters(remove_duplicate=False)}
    layer = [value for value in call.args[1:3] if value is not None]
    is_grouped = "transpose" in _operator(call) and _groups(call) > 1
    return not is_grouped and all(value.target in names for value in layer)


def _groups(call: Node) -> int:
    groups: Any = call.args[6] if len(call.args) > 6 else 1
    return int(groups)


def _fold(graph: GraphModule, call: Node, norm: Node) -> None:
    import torch

    def value(node: Any, default: float) -> Any:
        if node is None:
            return torch.full_like(mean, default)
        return operator.attrgetter(node.target)(graph).detach()

    layer = (call.args[1], norm.args[3])
    weight, mean = (operator.attrgetter(n.target)(graph).detach() for n in layer)
    bias = call.args[2] if len(call.args) > 2 else None
    variance, eps = value(norm.args[4], 1), norm.args[7]
    factor = value(norm.args[1], 1) * torch.rsqrt(variance + eps)
    rest = [1] * (weight.dim() - 2)
    if "transpose" in _operator(call):
        # Rows are the input's channels, group by group.
        groups = _groups(call)
        by_group = weight.view(groups, -1, *weight.shape[1:])
        folded = (by_group * factor.view(groups, 1, -1, *rest)).view(weight.shape)
    else:
        folded = weight * factor.view(-1, 1, *rest)
    shift = (value(bias, 0) - mean) * factor + value(norm.args[2], 0)
    for place, tensor, source in ((1, folded, call.args[1]), (2, shift, norm.args[3])):
        name = _free_name(graph, f"{source.target}_folded")
        graph.register_buffer(name, tensor.clone())
        with graph.graph.inserting_before(call):
            own = graph.graph.get_attr(name)
        own.meta["val"] = source.meta["val"]
        call.args = (*call.args[:place], own, *call.args[place + 1 :])
    norm.replace_all_uses_with(call)
    graph.graph.erase_node(norm)


def _free_name(graph: GraphModule, path: str) -> str:
    """A name for a tensor of a graph that none has yet, made of a path."""
    name = path.replace(".", "_")
    while hasattr(graph, name):
        name += "_"
    return name


def _own(graph: GraphModule, value: Node, ending: str, call: Node) -> Node:
    """A copy of a value, before a call; its name has the ending, and is no other copy's."""
    name = _free_name(graph, f"{value.target}_{ending}")
    _register(graph, name, operator.attrgetter(value.target)(graph))
    with graph.graph.inserting_before(call):
        own = graph.graph.get_attr(name)
    own.meta.update(value.meta)
    return own


def _register(graph: GraphModule, name: str, value: Any) -> None:
    """Registers a copy of a bias or a weight, which is trained if that is."""
    copy = value.detach().clone()
    if isinstance(value, type(next(graph.parameters(), None))):
        graph.register_parameter(name, type(value)(copy, requires_grad=value.requires_grad))
    else:
        graph.register_buffer(name, copy)


def _bias(call: Node) -> Any:
    place = _PLACES.get(_operator(call))
    if place is None:
        return None
    return call.args[place] if place < len(call.args) else call.kwargs.get("bias")


def _operator(node: Node) -> str:
    """The name of an aten operator without its overload; "": it is none."""
    name = str(node.target)
    return name.split(".")[1] if node.op == "call_function" and name.startswith("aten.") else ""
