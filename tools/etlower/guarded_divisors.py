"""Divisors that a model keeps from zero by a small number: `x / (x.sum(1, True) + 1e-6)`.

In 8 bits, and often in 16, that number is less than half a step, so that what is zero everywhere is
divided by zero, and what is small by zero instead of its sum. Such a quotient is computed in
floats, with what its divisor is made of.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule, Node

from etlower.operators import MOVING, packet

# Larger ones are numbers that a model computes with; a 32-bit float of 1e-3 is above it.
_SMALL = 1.001e-3
_GUARDS = frozenset(("add", "add_", "clamp", "clamp_", "clamp_min", "clamp_min_", "maximum"))
_QUOTIENTS = frozenset(("div", "div_", "divide", "true_divide"))
_COPIES = frozenset(("clone", "detach", "detach_", "lift_fresh", "lift_fresh_copy"))
_OF_MANY = frozenset(("amax", "linalg_vector_norm", "max", "mean", "norm", "std", "sum", "var"))
_OF_EACH = frozenset(("abs", "pow", "sqrt", "square"))
_MADE = _OF_EACH | _OF_MANY | MOVING
_BEHIND = MOVING | {"pow", "sqrt"}


def calls(model: GraphModule) -> set[Node]:
    """Finds the calls that make such divisors, and those that divide by them.

    Args:
      model: a captured graph.
    """
    found: set[Node] = set()
    for node in model.graph.nodes:
        if packet(node) in _GUARDS and _has_small_number(node, model):
            divided = _to_quotients(node)
            if divided:
                found |= {*divided, *_summed(node)}
    return found


def _has_small_number(node: Node, model: GraphModule) -> bool:
    given = (*node.args, *node.kwargs.values())
    return any(_is_small(_number(each, model)) for each in given)


def _number(given: object, model: GraphModule) -> object:
    while isinstance(given, Node) and packet(given) in _COPIES:
        given = given.args[0]
    if not isinstance(given, Node) or given.op != "get_attr":
        return given
    value = operator.attrgetter(str(given.target))(model)
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else None


def _is_small(number: object) -> bool:
    return isinstance(number, float) and 0 < number <= _SMALL


def _to_quotients(node: Node) -> list[Node]:
    """A call, those behind it, and the quotients that they divide; none: it is no divisor."""
    path, quotients = [node], []
    for value in path:
        for user in value.users:
            if packet(user) == "reciprocal":
                quotients += [user, *user.users]
            elif packet(user) in _QUOTIENTS and user.args[1] is value:
                quotients.append(user)
            elif packet(user) in _BEHIND and user.args[0] is value:
                path.append(user)
    return [*path, *quotients] if quotients else []


def _summed(node: Node) -> list[Node]:
    """The calls of the sum, or another measure of many numbers, that a value is made of."""
    made: list[Node] = []
    for given in node.all_input_nodes:
        while packet(given) in _MADE or _is_square(given):
            made.append(given)
            given = given.all_input_nodes[0]
    return made


def _is_square(node: Node) -> bool:
    return packet(node) == "mul" and len(node.all_input_nodes) == 1 and len(node.args) > 1
