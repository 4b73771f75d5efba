"""Rejects programs that do not take every dynamic size that their export allows.

ExecuTorch plans memory for the largest size. Two of its habits make that smaller than was exported,
without a word: a pass may fix a dynamic size to the example's, and a size without an upper bound is
planned as the example's.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from etbuild import BuildError, LowerAgain
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import bound_sympy

from etlower import operators, size_functions

_FIXED = (
    "ExecuTorch took the example's size{where}. A backend does that where it takes fixed sizes "
    "only: give the model methods of fixed sizes. Give dimensions that are equal one Dim."
)


@dataclass(frozen=True)
class Input:
    """An input of a method.

    Attributes:
      name: in the graph.
      upper: upper bound of each dimension of a tensor, of the value itself for a whole number, in
        which case the tuple has one item; None: there is no upper bound. Empty for other inputs.
      tensor: whether it is a tensor.
    """

    name: str
    upper: tuple[int | None, ...]
    tensor: bool = True


def exported(program: torch.export.ExportedProgram) -> tuple[Input, ...]:
    """The inputs of an exported program, before anything else is done with it.

    Passes learn more of the symbols in it, so that this has to be asked first.
    """
    names = program.graph_signature.user_inputs
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    ranges = {s: r for s, r in program.range_constraints.items() if s.is_Symbol}
    return tuple(
        _input(str(name), nodes[name].meta.get("val") if name in nodes else None, ranges)
        for name in names
    )


def captured(module: GraphModule) -> tuple[Input, ...]:
    """The inputs of a graph without weights among them, as PT2E quantizes it."""
    nodes = module.graph.find_nodes(op="placeholder")
    return tuple(_input(node.name, node.meta.get("val"), {}) for node in nodes)


def _input(name: str, value: Any, ranges: Mapping[Any, Any]) -> Input:
    if isinstance(value, torch.Tensor):
        return Input(name, tuple(_upper(size, ranges) for size in value.shape))
    if isinstance(value, torch.SymInt):
        return Input(name, (_upper(value, ranges),), tensor=False)
    return Input(name, (), tensor=False)


def _upper(size: int | torch.SymInt, ranges: Mapping[Any, Any]) -> int | None:
    """The upper bound of a size; None: it has none."""
    if isinstance(size, int):
        return size
    known = {**size.node.shape_env.var_to_range, **ranges}
    upper = bound_sympy(size.node.expr, known).upper
    return None if upper in (int_oo, -int_oo) or not upper.is_finite else int(upper)


def check_export(
    expected: Sequence[Input], inputs: Sequence[Input], method: str, label: str
) -> None:
    """Compares the inputs of an export with those of the one before it.

    Args:
      expected: of the first export.
      inputs: of the second one, of the graph that the first one gave.
      method: its name.
      label: of the model.

    Raises:
      BuildError: a bound is smaller.
    """
    for number, (first, second) in enumerate(_pairs(expected, inputs)):
        for dimension, (most, got) in enumerate(zip(first.upper, second.upper, strict=True)):
            if got is not None and (most is None or got < most):
                raise _smaller(label, method, number, first, dimension, got)


def explain(
    error: Exception, programs: Mapping[str, torch.export.ExportedProgram], label: str
) -> None:
    """Fails with a sentence where code of upstream's cannot lower a method with dynamic shapes.

    Args:
      error: what it raised.
      programs: by method, as they were exported.
      label: of the model.

    Raises:
      BuildError: a method has dynamic shapes.
    """
    if isinstance(error, BuildError | LowerAgain | MemoryError):
        return
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    said = (str(cause).strip().splitlines() or ["no message"])[0]
    frames = traceback.extract_tb(cause.__traceback__)
    frame = next((f for f in reversed(frames) if "/executorch/" in f.filename), frames[-1])
    where = f"{frame.filename.rpartition('site-packages/')[2]}:{frame.lineno}"
    for method, program in programs.items():
        symbols = sorted(program.range_constraints.items(), key=str)
        ranges = [
            f"{symbol} in {r.lower} to {r.upper}" for symbol, r in symbols if symbol.is_Symbol
        ]
        if not ranges:
            continue
        for number, name in enumerate(program.graph_signature.user_inputs):
            _check_fixed(program, method, number, str(name), label, error)
        function = size_functions.lacking(program)
        if function is not None:
            raise BuildError(
                f'{label}: the method "{method}" has dynamic shapes ({", ".join(ranges)}), and '
                f"computes {getattr(function.target, '__name__', function.target)} of "
                f"{', '.join(str(n.meta.get('val')) for n in function.all_input_nodes)}"
                f"{_place_of_number(function)}, for which ExecuTorch has no instruction.",
                "Write it with sums, products, quotients, powers and roots, compute it of a tensor "
                "(torch.tensor(x.shape[0])), or give the number to the model as an input.",
            ) from error
        raise BuildError(
            f'{label}: the method "{method}" has dynamic shapes ({", ".join(ranges)}), and could '
            f"not be lowered with them: {where}: {type(cause).__name__}: {said}",
            "Give the model methods of fixed sizes (without dynamic_shapes), or choose another "
            "recipe.",
        ) from error


def _check_fixed(
    program: torch.export.ExportedProgram,
    method: str,
    number: int,
    name: str,
    label: str,
    error: Exception,
) -> None:
    """Fails where lowering an exported program has fixed a size of an input that varied."""
    [node] = [n for n in program.graph.find_nodes(op="placeholder") if n.name == name] or [None]
    value = node.meta.get("val") if node is not None else None
    for dimension, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
        if isinstance(size, torch.SymInt) and size.node.expr.is_number:
            # As it was before something more became known of it.
            exported_as = bound_sympy(size.node._expr, program.range_constraints).upper
            upper = int(exported_as) if exported_as.is_finite else None
            given = Input(name, (*(None,) * dimension, upper))
            fixed = int(size.node.expr)
            where = _fixed_at(program)
            raise _smaller(label, method, number, given, dimension, fixed, where) from error


def _place_of_number(node: Node) -> str:
    """The place of a call, or of the first one that reads it and has one."""
    places = (operators.place_of(each) for each in (node, *node.users))
    return next(filter(None, places), "")


def check_lowered(manager: Any, expected: Mapping[str, Sequence[Input]], label: str) -> None:
    """Compares the inputs of a lowered program with those that were exported.

    Args:
      manager: upstream's ExecutorchProgramManager.
      expected: of the exported programs, by method.
      label: of the model.

    Raises:
      BuildError: the program takes less than was exported, or memory for a size without an upper
        bound is planned as the example's.
    """
    plans = {plan.name: plan for plan in manager.executorch_program.execution_plan}
    for method, inputs in expected.items():
        program = manager.exported_program(method)
        plan = plans[method]
        planned = [getattr(plan.values[value].val, "sizes", None) for value in plan.inputs]
        for number, (given, now) in enumerate(_pairs(inputs, exported(program))):
            sizes = planned[number] if given.tensor and number < len(planned) else now.upper
            for dimension, (most, got) in enumerate(zip(given.upper, sizes or (), strict=False)):
                if given.tensor and most is None:
                    raise BuildError(
                        f"{_where(label, method, number, given, dimension)} has no upper bound: "
                        f"ExecuTorch plans memory for the largest size, and would take {got}, that "
                        "of the example.",
                        'Give the dimension a max in dynamic_shapes, as in Dim("n", max=512).',
                    )
                if got is not None and (most is None or got < most):
                    where = _fixed_at(program)
                    raise _smaller(label, method, number, given, dimension, got, where)
        _check_results(program.graph_module, method, label)


def _pairs(expected: Sequence[Input], inputs: Sequence[Input]) -> Iterator[tuple[Input, Input]]:
    """Inputs before and after; none where a pass of the recipe gave the method others."""
    before = [(given.tensor, len(given.upper)) for given in expected]
    if before == [(given.tensor, len(given.upper)) for given in inputs]:
        yield from zip(expected, inputs, strict=True)


def _where(label: str, method: str, number: int, given: Input, dimension: int) -> str:
    where = f'{label}: the method "{method}": input {number} ("{given.name}")'
    return f"{where}, dimension {dimension}," if given.tensor else where


def _fixed_at(program: torch.export.ExportedProgram) -> str:
    """The place in upstream's code that fixed a size: ", in passes.py:12"; empty: it is unknown."""
    for node in program.graph.find_nodes(op="placeholder"):
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        for guard in mode.shape_env.guards if mode and mode.shape_env else ():
            is_fixed = isinstance(guard.expr, sympy.Eq) and any(
                a.is_number for a in guard.expr.args
            )
            if is_fixed and guard.sloc is not None and guard.sloc.framework_loc is not None:
                return f", in {str(guard.sloc).strip('()')}"
    return ""


def _smaller(
    label: str,
    method: str,
    number: int,
    given: Input,
    dimension: int,
    got: int,
    where: str = "",
) -> BuildError:
    most = given.upper[dimension]
    return BuildError(
        f"{_where(label, method, number, given, dimension)} lost its range: got at most {got}, "
        f"expected {'any size' if most is None else f'at most {most}'}, as exported.",
        _FIXED.format(where=where),
    )


def _check_results(module: GraphModule, method: str, label: str) -> None:
    """Fails where a result's size has no upper bound: memory for it is planned, too."""
    bounds: dict[Any, int | None] = {}
    for inner in module.modules():
        if not isinstance(inner, GraphModule):
            continue
        for node in inner.graph.nodes:
            if operators.name(node) and node.meta.get("spec") is not None:
                _check_result(node, bounds, method, label)


def _check_result(node: Node, bounds: dict[Any, int | None], method: str, label: str) -> None:
    for value in pytree.tree_leaves(node.meta.get("val")):
        if not isinstance(value, torch.Tensor):
            continue
        for dimension, size in enumerate(value.shape):
            if isinstance(size, int):
                continue
            expr = size.node.expr
            if expr not in bounds:
                bounds[expr] = _upper(size, {})
            if bounds[expr] is None:
                raise BuildError(
                    f'{label}: the method "{method}": a result of {operators.name(node)}, '
                    f"dimension {dimension}, has no upper bound: ExecuTorch plans memory for the "
                    "largest size, and would take that of the example.",
                    "Bound the input that the size comes from by a max in dynamic_shapes, or the "
                    "size itself by torch._check(size <= …) in the model.",
                )
