"""Lower bounds of the numbers in a program's tensors, from its graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import bound_sympy

from etlower import operators

# Operators whose results are made of numbers of their first argument.
# fmt: off
_SAME = frozenset(
    [
        "alias", "clone", "_clone_dim_order", "_to_copy", "_to_dim_order_copy",
        "expand_copy", "flip", "gather", "index", "index_select", "lift_fresh_copy",
        "permute_copy", "repeat", "roll", "select_copy", "slice_copy", "squeeze_copy", "t_copy",
        "transpose_copy", "unfold_copy", "unsqueeze_copy", "view_copy",
    ]
)
# fmt: on
_AT_LEAST_0 = frozenset(["abs", "argmax", "argmin", "argsort", "nonzero"])


class Least:
    """Finds the least number that a tensor can hold.

    Args:
      program: upstream's, in the edge dialect or before.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._known: dict[Node, float] = {}
        self._constants = {
            placeholder: program.state_dict.get(name, program.constants.get(name))
            for placeholder, name in operators.stored(program).items()
        }

    def of(self, value: Any) -> float:
        """A lower bound of a number, or of a node's numbers; minus infinity: none is known."""
        if isinstance(value, bool | int | float):
            return float(value)
        if not isinstance(value, Node):
            return -math.inf
        # Operands come before their users in a graph, so no cycle is met.
        if value not in self._known:
            self._known[value] = self._of_node(value)
        return self._known[value]

    def _of_node(self, node: Node) -> float:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            ranges = value.node.shape_env.var_to_range
            return _number(bound_sympy(value.node.expr, ranges).lower)
        if isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8):
            return 0.0
        if node.op == "placeholder":
            constant = self._constants.get(node.name)
            usable = isinstance(constant, torch.Tensor) and constant.numel()
            return float(constant.min()) if usable and not constant.is_complex() else -math.inf
        name = _name(node)
        if name in _SAME:
            return self.of(node.args[0])
        if name in _AT_LEAST_0:
            return 0.0
        rule = _RULES.get(name)
        return -math.inf if rule is None else rule(self, node)

    def arguments(self, node: Node) -> list[float]:
        """Lower bounds of a node's arguments, lists flat."""
        return [self.of(argument) for argument in pytree.tree_leaves(node.args)]


def _name(node: Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.partition("::")[2] if schema is not None else ""


def _number(bound: Any) -> float:
    return float(bound) if bound.is_finite else -math.inf


def _arange(least: Least, node: Node) -> float:
    begin = node.args[0] if len(node.args) > 1 else 0
    step = node.args[2] if len(node.args) > 2 else 1
    return least.of(begin) if least.of(step) > 0 else -math.inf


def _sum(least: Least, node: Node) -> float:
    first, second = least.arguments(node)[:2]
    times = node.kwargs.get("alpha", node.args[2] if len(node.args) > 2 else 1)
    return first + second if times == 1 else -math.inf


def _product(least: Least, node: Node) -> float:
    first, second = least.arguments(node)[:2]
    return first * second if first >= 0 and second >= 0 else -math.inf


def _clamp(least: Least, node: Node) -> float:
    low = node.args[1] if len(node.args) > 1 else node.kwargs.get("min")
    high = node.args[2] if len(node.args) > 2 else node.kwargs.get("max")
    bound = max(least.of(node.args[0]), least.of(low))
    return bound if high is None else min(bound, least.of(high))


def _remainder(least: Least, node: Node) -> float:
    # The kernel rounds to zero where torch rounds down: a remainder can be negative.
    return 0.0 if least.of(node.args[0]) >= 0 else -math.inf


_RULES: dict[str, Callable[[Least, Node], float]] = {
    "add": _sum,
    "arange": _arange,
    "cat": lambda least, node: min(least.of(part) for part in node.args[0]),
    "clamp": _clamp,
    "cumsum": lambda least, node: 0.0 if least.of(node.args[0]) >= 0 else -math.inf,
    "fmod": _remainder,
    "full": lambda least, node: least.of(node.args[1]),
    "full_like": lambda least, node: least.of(node.args[1]),
    "maximum": lambda least, node: max(least.arguments(node)[:2]),
    "minimum": lambda least, node: min(least.arguments(node)[:2]),
    "mul": _product,
    "relu": lambda least, node: max(0.0, least.of(node.args[0])),
    "remainder": _remainder,
    "scalar_tensor": lambda least, node: least.of(node.args[0]),
    "where": lambda least, node: min(least.of(value) for value in node.args[1:]),
}
