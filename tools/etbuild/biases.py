"""Biases and weights of layers that a method calls more than once, for quantizers.

These know one scale of a bias, and fold a batch norm into the weights of the layer before.
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


def _own(graph: GraphModule, value: Node, ending: str, call: Node) -> Node:
    """A copy of a value, before a call; its name has the ending."""
    name = f"{value.target}_{ending}".replace(".", "_")
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
