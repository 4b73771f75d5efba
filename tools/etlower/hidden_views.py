"""Views that operators give without saying so, in methods that write in place.

The schema of a composite operator such as `einsum`, `meshgrid` or a dropout that is off does not
say that its result may lie in the memory of an input, or be that input. torch.export takes the two
for different tensors as long as the operator stays whole, so that what a method writes to the one
is lost for what reads the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from etbuild import BuildError
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from etlower import control_flow_bodies, exchanged, memories, operators

# Windows that overlap: torch.export makes them a tensor of their own, whatever reads them.
_WINDOWS = "unfold"


def write_out(name: str, program: ExportedProgram, label: str) -> ExportedProgram:
    """Writes such operators out where the method writes to the memory behind them.

    What was written before is in both tensors.

    Args:
      name: of the method.
      program: in ATen, as torch.export gives it.
      label: of the target.

    Returns:
      The program, or one that is functional.

    Raises:
      BuildError: no operators are known for one of them; with its line.
    """
    hidden = _hidden_before_writes(program)
    found = [node for node in hidden if not _is_dropout(node)]
    with exchanged.results_named(program):
        for node in [node for node in hidden if _is_dropout(node)]:
            _share(node)
    if not found:
        return program
    table = torch.export.default_decompositions()
    chosen = {}
    for node in found:
        target: Any = node.target
        if target in table:
            chosen[target] = table[target]
        elif target._can_decompose():
            chosen[target] = target.decompose
        else:
            raise BuildError(
                f'{label}: the method "{name}"{operators.at_line(node)}: {node.target} gives a '
                "view, and the model writes in place to the memory that it shows: torch.export "
                "takes the two for different tensors.",
                "Write it without in-place operators (x = x + y for x += y, F.relu(x) for "
                "F.relu(x, inplace=True)), or take a copy (.clone()).",
            )
    return program.run_decompositions(chosen)


def _hidden_before_writes(program: ExportedProgram) -> list[Node]:
    """Finds hidden views whose memory a later call writes to, in order."""
    found = []
    written: set[int] = set()
    for node in reversed(list(_nodes(program))):
        written |= memories.written(node)
        if (
            written
            and _is_hidden(node)
            and not written.isdisjoint(memories.of(node) | memories.given(node))
        ):
            found.append(node)
    return found[::-1]


def _share(dropout: Node) -> None:
    """Replaces a dropout that is off by its input, as eager does."""
    dropout.replace_all_uses_with(dropout.args[0])  # type: ignore[arg-type]
    dropout.graph.erase_node(dropout)
    dropout.graph.owning_module.recompile()  # type: ignore[union-attr]


def _is_dropout(node: Node) -> bool:
    """Tells whether a node is a dropout that is off: its value without data is a copy."""
    return operators.packet(node).endswith("dropout") and node.args[2:3] == (False,)


def _nodes(program: ExportedProgram) -> Iterator[Node]:
    for module in control_flow_bodies.graphs(program.graph_module):
        yield from module.graph.nodes


def _is_hidden(node: Node) -> bool:
    """Tells whether a result lies in the memory of an input, and the schema does not say so."""
    if not isinstance(node.target, OpOverload) or node.target._schema.is_mutable:
        return False
    if operators.packet(node).endswith("_copy"):
        # The value without data of `lift_fresh_copy`, a constant in the code, is the constant's.
        return False
    is_declared = any(result.alias_info is not None for result in node.target._schema.returns)
    if is_declared and operators.packet(node) != _WINDOWS:
        return False
    return _is_dropout(node) or not memories.of(node).isdisjoint(memories.given(node))
