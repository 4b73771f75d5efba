"""Nodes that a partition for QNN takes along, leaves, and holds as its state."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from etlower import operators, partition_tags
from executorch.backends.qualcomm.utils.constants import QCOM_BYPASS_NODE

_FILLED_LIKE = frozenset(f"{name}_like" for name in ("empty", "full", "ones", "zeros"))


def has_inputs(partition: Any, constants: Collection[str]) -> bool:
    """Tells whether a partition reads anything but constants and its own results."""
    nodes = set(partition.nodes)
    return any(
        given not in nodes and not (given.op == "placeholder" and given.name in constants)
        for node in nodes
        for given in node.all_input_nodes
    )


def _makes_weight(node: torch.fx.Node) -> bool:
    """Tells of what makes a weight of stored integers and their scales; QNN knows it by these."""
    return bool(node.meta.get(QCOM_BYPASS_NODE, False))


def readers(node: torch.fx.Node) -> set[torch.fx.Node]:
    """The operators that read a weight, or the node itself if it makes none."""
    if not _makes_weight(node):
        return {node}
    return {reader for user in node.users for reader in readers(user)}


def own_weights(partition: Any) -> set[torch.fx.Node]:
    """Gives a partition copies of what makes its weights and is elsewhere.

    Handed in from outside, a weight is an activation for QNN, and has the wrong scale.

    Returns:
      The copies.
    """
    copies: set[torch.fx.Node] = set()
    left = sorted(partition.nodes, reverse=True)
    while left:
        reader = left.pop()
        for given in reader.all_input_nodes:
            if not _makes_weight(given) or given in partition.nodes:
                continue
            with given.graph.inserting_before(reader):
                copy = given.graph.node_copy(given)
            reader.replace_input_with(given, copy)
            partition.add_node(copy)
            copies.add(copy)
            left.append(copy)
    return copies


def leave_constants(partition: Any, constants: Collection[str]) -> None:
    """Leaves to ExecuTorch what follows from constants alone and is read elsewhere, too.

    QNN has no outputs that depend on no input: the runtime would miss them. Of what a tensor is
    filled like or copied into, the size is all that counts. If the partition gives that tensor,
    what reads it cannot lie between two parts of the partition: those outside read a copy. The
    caller has the signature follow results (`exchanged.results_named`).

    Args:
      partition: of the program's graph.
      constants: names of what the program stores.
    """
    known: set[torch.fx.Node] = set()
    behind: set[torch.fx.Node] = set()
    for node in sorted(partition.nodes):
        like = _sized_like(node)
        given = [n for n in node.all_input_nodes if n is not like]
        if all(n in known or (n.op == "placeholder" and n.name in constants) for n in given):
            known.add(node)
            if like in partition.nodes or not behind.isdisjoint(given):
                behind.add(node)
    while left := [node for node in known if any(u not in partition.nodes for u in node.users)]:
        for node in left:
            if node in behind:
                with node.graph.inserting_after(node):
                    copy = node.graph.node_copy(node)
                for user in [u for u in node.users if u not in partition.nodes]:
                    user.replace_input_with(node, copy)
                continue
            known.discard(node)
            partition.remove_node(node)
    for node in sorted(behind & known, reverse=True):
        if not node.users:
            # Its constants would be inputs that nothing reads.
            partition.remove_node(node)
            node.graph.erase_node(node)


def _sized_like(node: torch.fx.Node) -> torch.fx.Node | None:
    """Returns the operand of which a result has the size, and nothing else."""
    packet = operators.packet(node)
    return node.args[0] if packet == "copy" or packet in _FILLED_LIKE else None


def take_state(edge_program: torch.export.ExportedProgram) -> None:
    """Tags the buffers that one partition changes and that nothing else uses."""
    signature = edge_program.graph_signature
    nodes = {node.name: node for node in edge_program.graph.nodes}
    changed = {
        target: nodes[name] for name, target in signature.buffers_to_mutate.items() if name in nodes
    }
    for name, target in signature.inputs_to_buffers.items():
        if target not in changed or name not in nodes:
            continue
        users = [*nodes[name].users, *changed[target].users]
        around = {
            partition_tags.of(user) for user in (changed[target], *users) if user.op != "output"
        }
        if len(around) == 1 and None not in around:
            nodes[name].meta[partition_tags.TAG] = around.pop()
