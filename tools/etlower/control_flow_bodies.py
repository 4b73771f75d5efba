"""Prepares exported programs with control flow for partitioners.

Partitioners take nodes of a method's own graph. The bodies of `torch.cond`, `map` and `scan` run in
ExecuTorch's kernels, so operators that a partitioner keeps whole, such as `linear`, are decomposed
in bodies. A weight that a delegate takes, and that is an operand of a body or an output as well,
is copied for the latter: upstream duplicates weights for operators only.

What ExecuTorch 1.5.1 has no instructions for is refused with the model's line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from etbuild import BuildError
from executorch.exir.program._program import _default_decomposition_table
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from etlower import operators
from etlower.control_flow import BODIES, bodies
from etlower.partitioners import partitioners_of_method

_HIGHER = torch.ops.higher_order
_ROWS_OF_ONE = (
    "Stack the inputs into one tensor and the results into another (torch.cat), or use "
    "torch._higher_order_ops.scan, which takes several."
)


def prepared(
    programs: Mapping[str, ExportedProgram], recipe: Any, label: str
) -> dict[str, ExportedProgram]:
    """Programs that upstream can lower.

    Args:
      programs: by method; they stay unchanged.
      recipe: the ExportRecipe.
      label: of the model.

    Raises:
      BuildError: a program has control flow that ExecuTorch cannot run.
    """
    prepared_programs = {}
    for name, program in programs.items():
        for module in graphs(program.graph_module):
            _check(module, f'{label}: the method "{name}"')
        own = partitioners_of_method(recipe, name)
        prepared_programs[name] = _for_partitioners(program, own) if own else program
    return prepared_programs


def without_gradients(
    programs: Mapping[str, ExportedProgram],
) -> contextlib.AbstractContextManager[None]:
    """A context to lower programs in: tracing loops again would trace their gradients as well."""
    has_bodies = any(True for program in programs.values() for _ in bodies(program.graph_module))
    return torch.no_grad() if has_bodies else contextlib.nullcontext()


def _for_partitioners(program: ExportedProgram, partitioners: Iterable[Any]) -> ExportedProgram:
    kept = {op for each in partitioners for op in each.ops_to_not_decompose(program)[0]}
    if not any(_kept(program, kept)) and not any(_shared(program)):
        return program
    # A copy, whose graph is functional.
    program = program.run_decompositions({})
    table = _default_decomposition_table()
    for node in list(_kept(program, kept)):
        _decompose(node, table)
    for weight, users in list(_shared(program)):
        ones = [1] * weight.meta["val"].dim()
        with weight.graph.inserting_before(users[0]):
            # XNNPACK would take a clone, and crash on it.
            copy = weight.graph.call_function(torch.ops.aten.repeat.default, (weight, ones))
        copy.meta = {"val": weight.meta["val"]}
        for user in users:
            user.replace_input_with(weight, copy)
    for module in graphs(program.graph_module):
        module.recompile()
    return program


def graphs(module: GraphModule) -> Iterator[GraphModule]:
    """A graph and those of all bodies in it."""
    yield module
    for _, body in bodies(module):
        yield from graphs(body)


def _kept(program: ExportedProgram, kept: set[Any]) -> Iterator[Node]:
    """Nodes of bodies that a partitioner would keep whole."""
    for module in graphs(program.graph_module):
        if module is not program.graph_module:
            yield from (node for node in module.graph.nodes if node.target in kept)


def _shared(program: ExportedProgram) -> Iterator[tuple[Node, list[Node]]]:
    """Weights that operators use, with the outputs and control flow that use them as well."""
    weights = {spec.arg.name for spec in program.graph_signature.input_specs if spec.target}
    for node in program.graph.find_nodes(op="placeholder"):
        apart = [user for user in node.users if user.op == "output" or user.target in BODIES]
        if node.name in weights and apart and len(apart) < len(node.users):
            yield node, apart


def _decompose(node: Node, table: Mapping[Any, Any]) -> None:
    """Replaces an operator by those that its decomposition consists of."""
    flat, structure = pytree.tree_flatten((node.args, node.kwargs))
    numbers = [i for i, value in enumerate(flat) if isinstance(value, Node)]
    nodes = [flat[i] for i in numbers]

    def call(*values: Any) -> Any:
        given = list(flat)
        for i, value in zip(numbers, values, strict=True):
            given[i] = value
        args, kwargs = pytree.tree_unflatten(given, structure)
        return node.target(*args, **kwargs)

    values = [each.meta["val"] for each in nodes]
    traced = make_fx(call, decomposition_table=dict(table))(*values).graph
    placeholders = traced.find_nodes(op="placeholder")
    with node.graph.inserting_before(node):
        result = node.graph.graph_copy(traced, dict(zip(placeholders, nodes, strict=True)))
    node.replace_all_uses_with(result)
    node.graph.erase_node(node)


def _check(module: GraphModule, where: str) -> None:
    for node in module.graph.nodes:
        problem = _problem(node)
        if problem:
            what, instead = problem
            raise BuildError(f"{where}{operators.at_line(node)}: {what}", instead)


def _problem(node: Node) -> tuple[str, str] | None:
    if node.target is _HIGHER.while_loop:
        return (
            "ExecuTorch has no instruction for torch.while_loop.",
            "Use torch._higher_order_ops.scan with the largest number of steps, and torch.where to "
            "keep values that are final; or make the body a method, and loop in the app.",
        )
    if node.target is _HIGHER.map_impl:
        rows, results = len(node.args[1]), len(node.meta["val"])
        if (rows, results) != (1, 1):
            return (
                f"ExecuTorch's map takes one tensor and returns one: got {rows} and {results}.",
                _ROWS_OF_ONE,
            )
    return None
