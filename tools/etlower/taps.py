"""Taps and cuts: exported programs that return values from their middle.

A tapped program has all outputs of the program and the tapped values behind them. A cut one has
the values alone, and nothing that is computed after them. Both share the weights of the program,
which stays as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature, TensorArgument
from torch.export.graph_signature import (
    ExportGraphSignature,
    OutputKind,
    OutputSpec,
)
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from etlower.module_values import measured, user_outputs


def tapped(program: ExportedProgram, nodes: Sequence[Node]) -> tuple[ExportedProgram, list[int]]:
    """A program that also returns the values of some of its nodes.

    Args:
      program: functional.
      nodes: of its graph.

    Returns:
      The program; for each node the position of its value among the outputs of the method.
    """
    old = program.graph.output_node().args[0]
    own = [old[i] for i in user_outputs(program)]
    taps = [node for node in dict.fromkeys(nodes) if node not in own]
    positions = {node: own.index(node) for node in nodes if node in own}
    positions |= {node: len(own) + number for number, node in enumerate(taps)}
    return _with_outputs(program, taps, keep=True), [positions[node] for node in nodes]


def cut(program: ExportedProgram, nodes: Sequence[Node]) -> ExportedProgram:
    """A program that returns the values of some nodes, and computes nothing else.

    Args:
      program: functional.
      nodes: of its graph.
    """
    return _with_outputs(program, nodes, keep=False)


def _with_outputs(program: ExportedProgram, nodes: Sequence[Node], keep: bool) -> ExportedProgram:
    graph = Graph()
    copies: dict[Node, Node] = {}
    graph.graph_copy(program.graph, copies)
    signature = program.graph_signature
    old = zip(program.graph.output_node().args[0], signature.output_specs, strict=True)
    # A copy may get another name: "input" is one of Python's own.
    names = {node.name: copy.name for node, copy in copies.items()}
    kept = [
        (_copied(value, copies), _renamed(spec, names))
        for value, spec in old
        if keep or spec.kind is not OutputKind.USER_OUTPUT
    ]
    new = [_value(graph, node, copies) for node in nodes]
    specs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(n.name), None) for n in new]
    output = graph.output(tuple([value for value, _ in kept] + new))
    output.meta["val"] = tuple(_meta(value) for value in output.args[0])
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))
    outputs = [*(spec for _, spec in kept), *specs]
    count = sum(spec.kind is OutputKind.USER_OUTPUT for spec in outputs)
    return ExportedProgram(
        root=program.graph_module,
        graph=graph,
        graph_signature=ExportGraphSignature(
            [_renamed(spec, names) for spec in signature.input_specs], outputs
        ),
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=[_entry(program.module_call_graph[0], count)],
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=[program.verifier],
    )


def _renamed(spec: Any, names: Mapping[str, str]) -> Any:
    """A spec of an input or output, whose node has another name."""
    name = getattr(spec.arg, "name", None)
    return dataclasses.replace(spec, arg=dataclasses.replace(spec.arg, name=names.get(name, name)))


def _copied(value: Any, copies: dict[Node, Node]) -> Any:
    return copies[value] if isinstance(value, Node) else value


def _meta(value: Any) -> Any:
    return value.meta.get("val") if isinstance(value, Node) else value


def _value(graph: Graph, node: Node, copies: dict[Node, Node]) -> Node:
    """The copy of a node; where it is dequantized, a dequantization that nothing else reads."""
    at = measured(node)
    if at is node:
        return copies[node]
    return graph.node_copy(at, lambda inner: copies[inner])


def _entry(entry: ModuleCallEntry, outputs: int) -> ModuleCallEntry:
    signature = entry.signature
    assert isinstance(signature, ModuleCallSignature)
    changed = dataclasses.replace(
        signature,
        outputs=[TensorArgument("") for _ in range(outputs)],
        out_spec=pytree.tree_structure(tuple([0] * outputs)),
    )
    return ModuleCallEntry(fqn=entry.fqn, signature=changed)
