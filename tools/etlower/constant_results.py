"""Leaves to ExecuTorch what follows from constants alone and is read outside of its part.

Partitioners take such operators as they take others, for instance the places of windows that a
pooling is made of. Compilers fold them, and then miss an output, or all inputs. Partitioners also
keep operators whole that ExecuTorch has no kernel for: of constants, these are decomposed. Buffers
whose new value is a result as well stay, too: upstream gives a part one of both.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch.export import ExportedProgram
from torch.fx import Node

from etlower import operators, partition_tags


def leave(partitioner: Any) -> None:
    """Has a partitioner leave them; more than once does no harm.

    Args:
      partitioner: upstream's, whose `partition` is replaced.
    """
    inner = partitioner.partition
    if getattr(inner, "leaves_constants", False):
        return

    def partition(program: ExportedProgram) -> Any:
        result = inner(program)
        untag(program)
        nodes = [node for node in program.graph.nodes if node.op != "placeholder"]
        tags = {partition_tags.of(node) for node in nodes}
        for tag in set(result.partition_tags) - tags:
            del result.partition_tags[tag]
        return result

    partition.leaves_constants = True  # type: ignore[attr-defined]
    partitioner.partition = partition
    kept = partitioner.ops_to_not_decompose

    def ops_to_not_decompose(program: ExportedProgram) -> Any:
        targets, check = kept(program)
        constant = {node for node in _constants(program) if node.target in targets}
        if not constant:
            return targets, check
        return targets, lambda node: node not in constant and (check is None or check(node))

    partitioner.ops_to_not_decompose = ops_to_not_decompose


def untag(program: ExportedProgram) -> None:
    """Removes the tags of such operators and buffers, and of constants that no part reads then.

    A constant that several parts read keeps the tag of one: upstream gives the others copies.

    Args:
      program: whose operators have tags of their parts.
    """
    signature = program.graph_signature
    constant = _constants(program)
    for node in reversed(program.graph.nodes):
        tag = partition_tags.of(node)
        tags = {partition_tags.of(user) for user in node.users}
        if tag is None or node not in constant or tags <= {tag}:
            continue
        tags.discard(None)
        if node.op != "placeholder" or not tags:
            del node.meta[partition_tags.TAG]
        elif tag not in tags:
            node.meta[partition_tags.TAG] = min(tags)
    results = Counter(spec.arg.name for spec in signature.output_specs if hasattr(spec.arg, "name"))
    given = {buffer for name, buffer in signature.buffers_to_mutate.items() if results[name] > 1}
    for node in program.graph.find_nodes(op="placeholder"):
        if signature.inputs_to_buffers.get(node.name) in given:
            node.meta.pop(partition_tags.TAG, None)


def _constants(program: ExportedProgram) -> set[Node]:
    """Stored values of a program, and the calls that follow from them alone."""
    return operators.following(program.graph.nodes, operators.stored(program))
