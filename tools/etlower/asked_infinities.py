"""Values of which a model asks whether they are infinite, or no numbers.

A model may make such values on purpose and take them away again: the softmax of a row that a mask
hides whole is NaN and becomes 0, the root of a degree of 0 is infinite and becomes 0. What has no
infinities, such as quantized numbers or the floats of some processors, must not compute them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_map

from etlower import operators
from etlower.operators import MOVING

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
    the mask that hid a row before it.

    Args:
      module: captured, in ATen.
    """
    for node in list(module.graph.nodes):
        packet = operators.packet(node)
        if packet in _COMPARING and len(node.args) > 1 and _is_infinite(node.args[1]):
            _replace(node, _compared)
        elif packet in ("softmax", "_softmax"):
            _ask_mask(node)
    module.graph.eliminate_dead_code()
    module.recompile()


def _compared(call: Callable[..., Node], node: Node) -> Node:
    x, number = node.args
    sign = call("gt" if number > 0 else "lt", "Scalar", x, 0)  # type: ignore[operator]
    result = call("logical_and", "default", call("isinf", "default", x), sign)
    return call("logical_not", "default", result) if operators.packet(node) == "ne" else result


def _ask_mask(softmax: Node) -> None:
    """Has the questions on a softmax ask which rows are hidden, if nothing else reads its NaN."""
    same = [softmax]
    for node in same:
        same += [user for user in node.users if operators.packet(user) in _SAME]
    questions = [(node, user) for node in same for user in node.users if user not in same]
    asking = [(n, user) for n, user in questions if _asks(user, n, lambda _: None)]
    others = [user for pair in questions if (user := pair[1]) not in [u for _, u in asking]]
    mask = _mask_of(softmax.args[0])
    if not asking or mask is None or any(operators.packet(u) not in _TAKING for u in others):
        return
    for _, question in asking:
        _replace(question, lambda call, node: _of_rows(call, node, softmax, *mask))


def _of_rows(
    call: Callable[..., Node], question: Node, softmax: Node, mask: Node, is_kept: bool
) -> Node:
    result, dim = question.args[0], softmax.args[1]
    if is_kept:
        mask = call("logical_not", "default", mask)
    whole = call("expand", "default", mask, _sizes(call, softmax))
    hidden = call("all", "dim", whole, dim, True)
    packet = operators.packet(question)
    if packet == "nan_to_num":
        number = question.args[1] if len(question.args) > 1 else question.kwargs.get("nan")
        return call("masked_fill", "Scalar", result, hidden, number or 0.0)
    answer = call("expand", "default", hidden, _sizes(call, softmax))
    return call("logical_not", "default", answer) if packet in ("eq", "isfinite") else answer


def _sizes(call: Callable[..., Node], node: Node) -> list[Any]:
    shape = node.meta["val"].shape
    return [
        n if isinstance(n, int) else call("sym_size", "int", node, d) for d, n in enumerate(shape)
    ]


def _mask_of(scores: Any) -> tuple[Node, bool] | None:
    """The booleans that hide scores from a softmax, and whether they name what is kept instead."""
    packet = operators.packet(scores)
    if packet == "masked_fill" and scores.args[2] == -math.inf:
        return scores.args[1], False
    if packet == "where":
        mask, kept, hidden = scores.args
        for value, is_kept in ((hidden, True), (kept, False)):
            if _is_infinite(value):
                return mask, is_kept
    return None


def _replace(node: Node, written: Callable[[Callable[..., Node], Node], Node]) -> None:
    """Replaces a call by others."""

    def call(name: str, overload: str, *args: Any) -> Node:
        target = getattr(getattr(torch.ops.aten, name), overload)
        made = node.graph.call_function(target, args)
        values = tree_map(lambda a: a.meta["val"] if isinstance(a, Node) else a, args)
        made.meta = {**node.meta, "val": target(*values)}
        return made

    with node.graph.inserting_before(node):
        result = written(call, node)
    node.replace_all_uses_with(result)


_SAME = frozenset(("alias", "clone", "contiguous", "detach", "dropout"))
# What may take a value away where a question is answered, and what reads its size only.
_TAKING = frozenset(("full_like", "masked_fill", "ones_like", "where", "zeros_like"))


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
