"""Writes functions of sizes that vary with those that ExecuTorch has instructions for.

torch's export leaves `x.shape[-1] ** -0.5`, `math.sqrt` or `math.floor` of a size as a call of a
Python function. ExecuTorch 1.5.1 has instructions for sums, products, quotients and rounding only.
Others are computed with a tensor of one 64-bit float, whose value is read again: as exactly as
Python does, and of any size that the method takes.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from etbuild.graph_calls import call
from executorch.exir.passes.executorch_prim_ops_registry import (
    _PYTHON_SYM_OPS_TO_EXECUTORCH_SYM_OPS,
)
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from etlower.control_flow_bodies import graphs

_ATEN = torch.ops.aten
_NUMBERS = torch.SymInt | torch.SymFloat | torch.SymBool
_INSTRUCTIONS = {*_PYTHON_SYM_OPS_TO_EXECUTORCH_SYM_OPS, operator.getitem}
# More would be as many products.
_MOST_PRODUCTS = 8


def write_out(program: ExportedProgram) -> None:
    """Replaces functions of sizes that have no instruction; other programs stay as they are.

    Args:
      program: of a method, which is changed.
    """
    _write(program, _WRITTEN)


def write_out_sums(program: ExportedProgram) -> None:
    """Replaces sums of several sizes, which passes of recipes fail on, with sums of two.

    Args:
      program: of a method, which is changed.
    """
    _write(program, {torch.sym_sum: _sum})


def _write(program: ExportedProgram, written: Mapping[Any, Callable[[Node], None]]) -> None:
    for module in graphs(program.graph_module):
        named = [node for node in module.graph.nodes if node.op == "call_function"]
        found = [node for node in named if node.target in written]
        for node in found:
            with module.graph.inserting_before(node):
                written[node.target](node)
        if found:
            module.recompile()


def lacking(program: ExportedProgram) -> Node | None:
    """The first function of sizes that ExecuTorch has no instruction for; None: there is none."""
    for module in graphs(program.graph_module):
        for node in module.graph.nodes:
            is_number = isinstance(node.meta.get("val"), _NUMBERS)
            is_function = node.op == "call_function" and not isinstance(node.target, OpOverload)
            if is_number and is_function and node.target not in _INSTRUCTIONS:
                return node  # type: ignore[no-any-return]
    return None


def _call(before: Node, target: Any, *args: Any, **kwargs: Any) -> Node:
    """A call in front of a node, with its place in the model and a value."""
    mode = next((m for m in map(_mode_of, before.graph.nodes) if m is not None), None)
    with mode if isinstance(target, OpOverload) and mode else contextlib.nullcontext():
        return call(before, target, *args, **kwargs)


def _mode_of(node: Node) -> Any:
    return getattr(node.meta.get("val"), "fake_mode", None)


def _become(node: Node, target: Any, *args: Any) -> None:
    # The node stays, as the program's signature may have its name.
    node.target, node.args, node.kwargs = target, args, {}


def _power(node: Node) -> None:
    base, exponent = node.args
    if isinstance(exponent, int) and 1 <= exponent <= _MOST_PRODUCTS:
        product: Any = base
        for _ in range(exponent - 2):
            product = _call(node, operator.mul, product, base)
        _become(node, operator.mul, product, base if exponent > 1 else 1)
    elif isinstance(node.meta["val"], torch.SymFloat):
        values = [_tensor(node, each) for each in (base, exponent)]
        _read(node, _call(node, _ATEN.pow.Tensor_Tensor, *values))


def _function(name: str) -> Callable[[Node], None]:
    def write(node: Node) -> None:
        [size] = node.args
        _read(node, _call(node, getattr(_ATEN, name).default, _tensor(node, size)))

    return write


def _tensor(node: Node, number: Any) -> Node:
    return _call(node, _ATEN.scalar_tensor.default, number, dtype=torch.float64)


def _read(node: Node, tensor: Node) -> None:
    _become(node, _ATEN._local_scalar_dense.default, tensor)


def _floor(node: Node) -> None:
    [size] = node.args
    _become(node, operator.neg, _call(node, math.ceil, _call(node, operator.neg, size)))


def _sum(node: Node) -> None:
    [sizes] = node.args
    total, *others, last = sizes
    for size in others:
        total = _call(node, operator.add, total, size)
    _become(node, operator.add, total, last)


def _unequal(node: Node) -> None:
    _become(node, torch.sym_not, _call(node, operator.eq, *node.args))


# Of torch's, each for one function of `math`.
_FUNCTIONS = (
    *("acos", "asin", "atan", "cos", "cosh", "log2", "sin", "sinh", "sqrt", "tan", "tanh"),
)
_WRITTEN: Mapping[Any, Callable[[Node], None]] = {
    **{getattr(torch, f"_sym_{name}"): _function(name) for name in _FUNCTIONS},
    math.floor: _floor,
    operator.ne: _unequal,
    operator.pow: _power,
    torch.sym_sum: _sum,
}
