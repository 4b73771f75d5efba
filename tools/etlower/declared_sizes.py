"""Sizes that a model's author declares for its inputs, read from an exported program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sympy
import torch
from etlink.declared_sizes import InputSizes, SizeRange
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import bound_sympy

# Exported sizes begin at 2 where nobody declared a minimum: torch treats 0 and 1 as constants.
_ASSUMED = 2
_LARGEST = 2**63 - 1


def declared(program: torch.export.ExportedProgram, dynamic_shapes: Any) -> tuple[InputSizes, ...]:
    """Lists the inputs with a dynamic dimension.

    Args:
      program: before anything else is done with it: passes learn more of its symbols.
      dynamic_shapes: what it was exported with.
    """
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    symbols = _Symbols(program, _ASSUMED in set(_minimums(dynamic_shapes)))
    made = []
    for number, name in enumerate(map(str, program.graph_signature.user_inputs)):
        value = nodes[name].meta.get("val") if name in nodes else None
        sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
        if any(isinstance(size, torch.SymInt) for size in sizes):
            ranges = tuple(map(symbols.range_of, sizes))
            made.append(InputSizes(input=number, name=name, sizes=ranges))
    return tuple(made)


def _minimums(dynamic_shapes: Any) -> Iterator[int]:
    """Minimums that were declared, of all dimensions."""
    for leaf in pytree.tree_leaves(dynamic_shapes):
        minimum = getattr(leaf, "min", None)
        if isinstance(minimum, int):
            yield minimum


class _Symbols:
    """The symbols of a program's sizes, by names that do not depend on torch's counting."""

    def __init__(self, program: torch.export.ExportedProgram, keep_assumed: bool) -> None:
        self._declared = dict(program.range_constraints)
        self._keep_assumed = keep_assumed
        self._names: dict[Any, str] = {}

    def range_of(self, size: int | torch.SymInt) -> SizeRange:
        if isinstance(size, int):
            return SizeRange(min=size, max=size)
        expression = size.node.expr
        known = {**size.node.shape_env.var_to_range, **self._symbols()}
        ranges = self._declared.get(expression, bound_sympy(expression, known))
        low, high = _number(ranges.lower, 0), _number(ranges.upper, _LARGEST)
        if expression.is_Symbol and low == _ASSUMED and not self._keep_assumed:
            low = 0
        symbol, times, plus = self._linear(expression)
        return SizeRange(min=low, max=high, symbol=symbol, times=times, plus=plus)

    def _symbols(self) -> Mapping[Any, Any]:
        return {s: r for s, r in self._declared.items() if s.is_Symbol}

    def _linear(self, expression: Any) -> tuple[str, int, int]:
        """Symbol, factor and summand of an expression; no symbol where it isn't so simple."""
        symbols = sorted(expression.free_symbols, key=str)
        if len(symbols) != 1:
            return "", 1, 0
        [symbol] = symbols
        times = expression.coeff(symbol)
        plus = sympy.expand(expression - times * symbol)
        if not (times.is_Integer and plus.is_Integer and times > 0 and plus >= 0):
            return "", 1, 0
        name = self._names.setdefault(symbol, f"s{len(self._names)}")
        return name, int(times), int(plus)


def _number(bound: Any, fallback: int) -> int:
    """A bound as a number; infinite ones are the fallback."""
    return int(bound) if bound.is_finite and abs(bound) <= _LARGEST else fallback
