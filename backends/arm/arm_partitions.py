"""Partitions for Arm that depend on no operator between their own nodes.

Where a partition must not begin or end with quantization, upstream's partitioner (ExecuTorch 1.5.1)
takes such nodes out again. What was between two nodes of the partition then lies outside of it, and
the partition would need its own output. Upstream splits it into connected parts, of which one may
still do that: a residual connection joins what is before and after such a node. Here each part is
split further, by how often a path to a node left the part. Nodes that give floats to another part,
or take them from there, stay with ExecuTorch, as the parts compute with integers: a mask that keeps
its floats, and the maximum of a softmax behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from etlower import operators
from executorch.backends.arm.tosa import partitioner
from torch.fx import Node

_connected: Callable[[set[Node]], list[set[Node]]] = partitioner._find_connected_components
_is_acyclic: Callable[[set[Node]], bool] = partitioner._validate_partition


def install() -> None:
    """Replaces, for this process, which partitions upstream splits, and how."""
    partitioner._validate_partition = is_whole
    partitioner._find_connected_components = parts_of


def is_whole(nodes: set[Node]) -> bool:
    """Tells whether nodes can be one operator that computes with integers.

    Args:
      nodes: of one graph.
    """
    return _is_acyclic(nodes) and not any(_passes_floats(node, nodes) for node in nodes)


def parts_of(nodes: set[Node]) -> list[set[Node]]:
    """Splits nodes into connected parts, each of which can be one operator.

    Args:
      nodes: of one graph.

    Returns:
      The parts: what upstream returns, with those split that depend on their own outputs, and
      without what would pass floats; in the graph's order, where upstream's is that of addresses.
    """
    if not nodes:
        return []
    parts = _split(nodes)
    place = {node: number for number, node in enumerate(next(iter(nodes)).graph.nodes)}
    return sorted(parts, key=lambda part: min(place[node] for node in part))


def _split(nodes: set[Node]) -> list[set[Node]]:
    """Splits a part by levels, and leaves out what would pass floats between the new parts."""
    while True:
        parts: list[set[Node]] = []
        for component in _connected(nodes):
            if _is_acyclic(component):
                parts.append(component)
                continue
            level_of = _levels(component)
            for level in sorted(set(level_of.values())):
                parts += _connected({node for node in component if level_of[node] == level})
        loose = {node for part in parts for node in part if _passes_floats(node, part)}
        if not loose:
            return parts
        nodes = nodes - loose


def _passes_floats(node: Node, part: Collection[Node]) -> bool:
    """Tells whether a node of a part takes floats from outside of it, or gives some to there.

    Scales of weights are floats, too, and belong to the part that reads them.
    """
    gives = operators.gives_floats(node) and any(user not in part for user in node.users)
    takes = [given for given in node.all_input_nodes if given.op == "call_function"]
    return gives or any(given not in part and operators.gives_floats(given) for given in takes)


def _levels(part: Collection[Node]) -> dict[Node, int]:
    """Counts, for each node of a part, how often the paths to it leave the part, at most.

    Nodes with one level have no path from one to another that leaves them: it would end higher.
    """
    levels: dict[Node, int] = {}
    for node in next(iter(part)).graph.nodes:
        leaves = node not in part
        above = [levels[given] + (leaves and given in part) for given in node.all_input_nodes]
        levels[node] = max(above, default=0)
    return {node: levels[node] for node in part}
