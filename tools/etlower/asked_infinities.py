"""Values of which a model asks whether they are infinite, or no numbers.

A model may make such values on purpose and take them away again: the softmax of a row that a mask
hides whole is NaN and becomes 0, the root of a degree of 0 is infinite and becomes 0. What has no
infinities, such as quantized numbers or the floats of some processors, must not compute them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from etbuild import graph_calls
from etbuild.graph_calls import call
from torch.fx import Graph, GraphModule, Node

from etlower import operators
from etlower.annotations import infinite
from etlower.operators import MOVING

_ATEN = torch.ops.aten

_ASKING = frozenset(("isfinite", "isinf", "isnan", "isneginf", "isposinf", "nan_to_num"))
_COMPARING = frozenset(("eq", "ne"))
# Functions whose result may be infinite or NaN where an input is, or that make such.
_CARRYING = MOVING | frozenset(
    (
        *("_log_softmax", "_safe_softmax", "_softmax", "_to", "_to_dim_order", "abs", "add"),
        *("amax", "amin", "cumsum", "div", "exp", "expm1", "log", "log10", "log1p", "log2"),
        *("log_softmax", "masked_fill", "mean", "mul", "neg", "pow", "reciprocal", "rsqrt"),
        *("rsub", "softmax", "sqrt", "square", "sub", "sum", "to", "where"),
    )
)


def asked(graph: Graph, number: Callable[[Node], Any] = lambda _: None) -> set[Node]:
    """Finds the nodes whose values reach such a question through no layer.

    Args:
      graph: in ATen's or the edge dialect.
      number: the single number that a node holds; NaN: any; None: several, or it is no constant.

    Returns:
      The nodes of functions between layers and the questions, without these.

    Example:

        # x = softmax(x.masked_fill(mask, -inf), -1); x.masked_fill(isnan(x), 0)
        asked(graph)  # {masked_fill, softmax}
    """
    found: set[Node] = set()
    for node in reversed(graph.nodes):
        is_read = any(user in found or _asks(user, node, number) for user in node.users)
        if is_read and _carries(node):
            found.add(node)
    return found


def readers(nodes: set[Node]) -> set[Node]:
    """Returns what reads such values: the questions, and what takes the values away."""
    return {user for node in nodes for user in node.users}


def behind(node: Node) -> set[Node]:
    """Returns a node and those that it is a function of, back to layers, inputs and constants."""
    found: set[Node] = set()
    left = [node]
    while left:
        each = left.pop()
        if each not in found and _carries(each):
            found.add(each)
            left += each.all_input_nodes
    return found


def _carries(node: Node) -> bool:
    return operators.packet(node).removesuffix("_copy").rstrip("_") in _CARRYING


def write_out(module: GraphModule) -> None:
    """Writes questions so that passes of quantizers, which make numbers of infinities, keep them.

    `x == inf` becomes a question for infinities and a sign. Whether a softmax gave NaN follows from
    the masks that hid a row before it.

    Args:
      module: captured, in ATen.
    """
    holding = infinite(module)
    written = {}
    for node in module.graph.nodes:
        packet = operators.packet(node)
        if packet in _COMPARING and len(node.args) > 1 and _is_infinite(node.args[1]):
            written[node] = _compared
        elif packet in ("softmax", "_softmax"):
            masks = _masks_of(node.args[0], holding)
            answer = functools.partial(_answered, node, masks)
            written |= dict.fromkeys(_questions(node) if masks else (), answer)
    for node, function in written.items():
        with node.graph.inserting_before(node):
            node.replace_all_uses_with(function(node))
        node.graph.erase_node(node)
    if written:
        module.recompile()


def _compared(node: Node) -> Node:
    x, number = node.args
    sign = call(node, (_ATEN.gt if number > 0 else _ATEN.lt).Scalar, x, 0)  # type: ignore[operator]
    result = call(node, _ATEN.logical_and.default, call(node, _ATEN.isinf.default, x), sign)
    return _negated(node, result) if operators.packet(node) == "ne" else result


def _negated(node: Node, mask: Any) -> Node:
    return call(node, _ATEN.logical_not.default, mask)


def _questions(softmax: Node) -> list[Node]:
    """Lists what asks for the NaN of a softmax; nothing, if it is read without a question, too."""
    same = [softmax]
    for node in same:
        same += [user for user in node.users if operators.packet(user) in _SAME]
    found = []
    for node in same:
        for user in node.users:
            if operators.packet(user) in _ABOUT_NAN and _asks(user, node, lambda _: None):
                found.append(user)
            elif user not in same and operators.packet(user) not in _TAKING:
                return []
    # A comparison with an infinity is none with itself.
    return [each for each in found if not _is_infinite(each.args[-1])]


def _masks_of(scores: Any, holding: set[Node]) -> list[tuple[Node, bool]]:
    """The booleans that hide scores from a softmax, and whether they name what is kept instead.

    They are none where something else may hide scores, too.
    """
    masks = []
    while True:
        packet = operators.packet(scores)
        if packet == "masked_fill" and scores.args[2] == -math.inf:
            masks.append((scores.args[1], False))
            scores = scores.args[0]
        elif packet == "where" and any(map(_is_infinite, scores.args[1:])):
            mask, chosen, other = scores.args
            is_kept = _is_infinite(other)
            masks.append((mask, is_kept))
            scores = chosen if is_kept else other
        else:
            return [] if scores in holding else masks


def _answered(softmax: Node, masks: list[tuple[Node, bool]], question: Node) -> Node:
    sizes = graph_calls.sizes(question, softmax)
    wholes = [
        call(question, _ATEN.expand.default, _negated(question, m) if is_kept else m, sizes)
        for m, is_kept in masks
    ]
    whole = functools.reduce(lambda a, b: call(question, _ATEN.logical_or.default, a, b), wholes)
    hidden = call(question, _ATEN.all.dim, whole, softmax.args[1], True)
    packet = operators.packet(question)
    if packet == "nan_to_num":
        number = question.args[1] if len(question.args) > 1 else question.kwargs.get("nan")
        target = _ATEN.masked_fill.Scalar
        return call(question, target, question.args[0], hidden, number or 0.0)
    answer = call(question, _ATEN.expand.default, hidden, sizes)
    return _negated(question, answer) if packet in ("eq", "isfinite") else answer


_SAME = frozenset(("alias", "clone", "contiguous", "detach", "dropout"))
_ABOUT_NAN = frozenset(("eq", "isfinite", "isnan", "nan_to_num", "ne"))
# What may take a value away where a question is answered, what reads its size only, and questions
# that NaN and numbers have one answer to.
_TAKING = frozenset(
    (
        *("eq", "full_like", "isinf", "isneginf", "isposinf", "masked_fill", "ne", "ones_like"),
        *("where", "zeros_like"),
    )
)


def _asks(user: Node, node: Node, number: Callable[[Node], Any]) -> bool:
    """Tells whether a reader of a node asks whether it is infinite, or no number."""
    packet = operators.packet(user).rstrip("_")
    if packet in _ASKING:
        return user.args[0] is node
    if packet not in _COMPARING or len(user.args) < 2:
        return False
    others = [each for each in user.args[:2] if each is not node]
    # What differs from itself is no number.
    return not others or _is_infinite(others[0], number)


def _is_infinite(value: Any, number: Callable[[Node], Any] = lambda _: None) -> bool:
    if isinstance(value, Node):
        if operators.packet(value) in ("full", "scalar_tensor"):
            value = value.args[-1]
        else:
            value = number(value)
    return isinstance(value, float) and not math.isfinite(value)
