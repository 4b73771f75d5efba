"""Compares an exported program with its model where a size that varies is 1.

torch.export takes such a size for 2 or more, also where its range begins below, and says nothing: a
branch of the model on it, or a slice, stays what it is for larger ones. So both are run once where
it is 1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from etbuild import BuildError, Method
from torch.utils import _pytree as pytree

from etlower import operators

# Of the largest number: both run the same operators.
_TOLERANCE = 1e-2


def check(
    name: str, module: Any, method: Method, program: torch.export.ExportedProgram, label: str
) -> None:
    """Fails where a program differs from its model for a size of 1 that its range has.

    Args:
      name: of the method.
      module: what was exported; graphs of an earlier export are not asked again.
      method: with the example inputs, of which the first elements are taken.
      program: the export.
      label: of the model.

    Raises:
      BuildError: with the dimension, and what differs.
    """
    if isinstance(module, torch.fx.GraphModule) or method.dynamic_shapes is None:
        return
    leaves, tree = pytree.tree_flatten(tuple(method.example_inputs))
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    names = program.graph_signature.user_inputs
    values = [nodes[n].meta.get("val") if n in nodes else None for n in names]
    if len(values) != len(leaves):
        return
    symbols = _symbols(values, leaves)
    small = [s for s in symbols if _begins_with_one(program.range_constraints.get(s))]
    for symbol in small:
        sizes = {**{s: n for s, (n, _) in symbols.items()}, symbol: 1}
        given = _with_sizes(leaves, values, sizes)
        said = given and _difference(module, program, sizes, pytree.tree_unflatten(given, tree))
        if said:
            raise BuildError(
                f'{label}: the method "{name}": where {symbols[symbol][1]} has the size 1, {said}: '
                "torch.export takes sizes that vary for 2 or more, and a branch or a slice of the "
                "model depends on that.",
                "Begin its range with 2 (Dim(min=2)), write the model without what depends on it, "
                "or give the size 1 a method of its own.",
            )


def _symbols(values: Sequence[Any], leaves: Sequence[Any]) -> dict[Any, tuple[int, str]]:
    """Sizes that vary, with that of the example and a dimension that has it."""
    found: dict[Any, tuple[int, str]] = {}
    for number, (value, leaf) in enumerate(zip(values, leaves, strict=True)):
        shape = value.shape if isinstance(value, torch.Tensor) else ()
        for dim, size in enumerate(shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                where = f"dimension {dim} of input {number}"
                found.setdefault(size.node.expr, (leaf.shape[dim], where))
    return found


def _begins_with_one(bounds: Any) -> bool:
    return bounds is not None and bool(bounds.lower <= 1 <= bounds.upper)


def _with_sizes(
    leaves: Sequence[Any], values: Sequence[Any], sizes: Mapping[Any, int]
) -> list[Any] | None:
    """The first elements of inputs; None: a size follows from none that is known."""
    given = []
    for leaf, value in zip(leaves, values, strict=True):
        if isinstance(leaf, torch.Tensor) and isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    expected = _size(size, sizes)
                    if expected is None or not 0 <= expected <= leaf.shape[dim]:
                        return None
                    leaf = leaf.narrow(dim, 0, expected)
        given.append(leaf)
    return given


def _size(size: Any, sizes: Mapping[Any, int]) -> int | None:
    """A size where those that vary are known; None: another one varies, too."""
    if isinstance(size, int):
        return size
    value = sympy.sympify(size.node.expr.xreplace(sizes))
    return int(value) if value.is_Integer else None


class _Odd(Exception):
    """A call gives another shape than its graph has."""


class _Shapes(torch.fx.Interpreter):
    """Runs a graph, and compares the shape of each result with that in the graph.

    Args:
      module: of the graph.
      sizes: those that vary.
    """

    def __init__(self, module: torch.fx.GraphModule, sizes: Mapping[Any, int]) -> None:
        super().__init__(module)
        self._sizes = sizes

    def run_node(self, n: torch.fx.Node) -> Any:
        """As upstream's.

        Raises:
          _Odd: with the call.
        """
        result, value = super().run_node(n), n.meta.get("val")
        if isinstance(result, torch.Tensor) and isinstance(value, torch.Tensor):
            shape = [_size(size, self._sizes) for size in value.shape]
            if None not in shape and shape != [*result.shape]:
                raise _Odd(
                    f"{operators.name(n) or n.name}{operators.place_of(n)} gives the shape "
                    f"{[*result.shape]}, and the exported program has {shape} for it"
                )
        return result


def _difference(
    module: torch.nn.Module, program: Any, sizes: Mapping[Any, int], inputs: Any
) -> str:
    """Describes what a program's results differ by from its model's; empty: by nothing."""
    try:
        expected = _results(module, module, inputs)
    except Exception:  # The model itself takes no such size.
        return ""
    try:
        interpreter = _Shapes(program.module(check_guards=False), sizes)
        got = _results(interpreter.run, module, inputs)
    except _Odd as error:
        return str(error)
    except Exception:  # Of checks of sizes, for instance, which programs leave out.
        return ""
    for number, (a, b) in enumerate(zip(got, expected, strict=False)):
        if a.shape != b.shape:
            return f"its result {number} has the shape {[*a.shape]}, and the model's {[*b.shape]}"
        if a.numel() and not _is_close(a.double(), b.double()):
            return f"its result {number} has other numbers than the model's"
    return ""


def _is_close(a: torch.Tensor, b: torch.Tensor) -> bool:
    finite = torch.isfinite(b)
    largest = float(b[finite].abs().max()) if finite.any() else 0.0
    return torch.allclose(a, b, rtol=0, atol=_TOLERANCE * largest + 1e-6, equal_nan=True)


def _results(call: Any, module: torch.nn.Module, inputs: Any) -> list[torch.Tensor]:
    given = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, inputs)
    with torch.no_grad(), _unchanged(module), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        results = pytree.tree_leaves(call(*given))
        return [
            value.detach().clone()
            for value in results
            if isinstance(value, torch.Tensor) and not value.dtype.is_complex
        ]


@contextlib.contextmanager
def _unchanged(module: torch.nn.Module) -> Iterator[None]:
    """Gives state its values back, which a call changes."""
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in before:
            buffer.copy_(value)
