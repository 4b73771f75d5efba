"""Decides by sets of bits whether two partitions may be one, where upstream searches the graph.

Replaces `_merge_partitions` of ExecuTorch's GroupBasedPartitioner and the two `_DependencyViewer`s.
Upstream asks for each pair of partitions whether a path leaves both and comes back, each time by a
walk through the graph behind them, and keeps a set of nodes for each node, which grows with the
square of the graph.

Why it is equivalent: the pairs are tried in the same order, and the same question has the same
answer. What can be reached from a node is an integer with a bit for each node, computed once from
the graph; a pair is refused if what its outer users reach has a node of the pair. The graph must be
what it was when the partitioner was made and be sorted, else upstream's function runs.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator
from typing import Any

from etlower.replacing import replaced
from torch.fx import GraphModule, Node

from etfast.unit import Unit

_Neighbors = list[tuple[Node, tuple[Node, ...], tuple[Node, ...]]]


def neighbors(graph_module: GraphModule) -> _Neighbors:
    """Each node with its users and inputs, in the order of the graph."""
    nodes = graph_module.graph.nodes
    return [(node, tuple(node.users), tuple(node.all_input_nodes)) for node in nodes]


class DependencyViewer:
    """Upstream's, of the graph as it was when this was made; sets are computed on demand."""

    def __init__(self, graph_module: GraphModule) -> None:
        self.neighbors = neighbors(graph_module)
        self._down: dict[Node, set[Node]] | None = None
        self._up: dict[Node, set[Node]] | None = None

    @property
    def downstreams(self) -> dict[Node, set[Node]]:
        """All that depends on a node, by node."""
        if self._down is None:
            below: dict[Node, set[Node]] = collections.defaultdict(set)
            for node, users, _ in reversed(self.neighbors):
                for user in users:
                    below[node].add(user)
                    below[node].update(below[user])
            self._down = below
        return self._down

    @property
    def upstreams(self) -> dict[Node, set[Node]]:
        """All that a node depends on, by node."""
        if self._up is None:
            above: dict[Node, set[Node]] = collections.defaultdict(set)
            for node, _, inputs in self.neighbors:
                for source in inputs:
                    above[node].add(source)
                    above[node].update(above[source])
            self._up = above
        return self._up

    def downstreams_of(self, node: Node) -> set[Node]:
        """All that depends on a node."""
        return self.downstreams[node]

    def upstreams_of(self, node: Node) -> set[Node]:
        """All that a node depends on."""
        return self.upstreams[node]


class Reach:
    """The nodes that can be reached from each node, as bits.

    Attributes:
      bit: a node's number, from 0.
      users: bits of a node's users, by number.
      below: bits of all that depends on a node, by number.
    """

    def __init__(self, graph: _Neighbors) -> None:
        self.bit = {node: number for number, (node, _, _) in enumerate(graph)}
        self.users = [sum(1 << self.bit[user] for user in users) for _, users, _ in graph]
        self.below = [0] * len(graph)
        for number in range(len(graph) - 1, -1, -1):
            reached = self.users[number]
            for user in graph[number][1]:
                reached |= self.below[self.bit[user]]
            self.below[number] = reached

    def below_all(self, nodes: int) -> int:
        """All that depends on any of these."""
        below = 0
        for number in _bits(nodes):
            below |= self.below[number]
        return below


class _Part:
    """A partition: its nodes, their users outside, and what depends on those, as bits."""

    def __init__(self, nodes: int, users: int, reach: Reach) -> None:
        self.nodes = nodes
        self.users = users & ~nodes
        self.below = reach.below_all(self.users)

    @classmethod
    def of(cls, nodes: Any, reach: Reach) -> _Part:
        own = users = 0
        for node in nodes:
            number = reach.bit[node]
            own |= 1 << number
            users |= reach.users[number]
        return cls(own, users, reach)


def can_merge(first: _Part, second: _Part, reach: Reach) -> bool:
    """Tells whether no path leaves both partitions and comes back to one of them."""
    both = first.nodes | second.nodes
    if not (first.below | second.below) & both:
        return True
    if not (first.users & second.nodes or second.users & first.nodes):
        return False
    # A user outside of the first may lie in the second: what depends on that alone doesn't count.
    return not reach.below_all((first.users | second.users) & ~both) & both


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def _sorted(graph: _Neighbors) -> bool:
    position = {node: number for number, (node, _, _) in enumerate(graph)}
    return all(position[node] < position[user] for node, users, _ in graph for user in users)


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.exir.backend.canonical_partitioners import group_partitioner
    from torch.fx.passes.infra import partitioner

    group = group_partitioner.GroupBasedPartitioner
    upstream = group._merge_partitions
    parts = {name: getattr(group, name) for name in ("_can_merge_partitions",)}

    def _merge_partitions(
        self: Any,
        partitions_by_id: Any,
        assignment: Any,
        partition_users: Any,
        partition_map: Any,
        partitions_order: Any,
    ) -> None:
        given = (partitions_by_id, assignment, partition_users, partition_map, partitions_order)
        graph = neighbors(self.graph_module)
        viewer = self.dependency_viewer
        if (
            any(getattr(type(self), name) is not function for name, function in parts.items())
            or not isinstance(viewer, DependencyViewer)
            or viewer.neighbors != graph
            or not _sorted(graph)
        ):
            upstream(self, *given)
            return
        reach = Reach(graph)
        parts_by_id = {key: _Part.of(p.nodes, reach) for key, p in partitions_by_id.items()}
        left = list(parts_by_id)
        while left:
            first, *rest = left
            left = []
            merged = parts_by_id[first]
            for second in rest:
                other = parts_by_id[second]
                if not can_merge(merged, other, reach):
                    left.append(second)
                    continue
                self._perform_partition_merge(
                    first,
                    second,
                    partitions_by_id,
                    assignment,
                    partition_users,
                    partition_map,
                    partitions_order,
                )
                merged = _Part(merged.nodes | other.nodes, merged.users | other.users, reach)
                parts_by_id[first] = merged

    return replaced(
        (group, "_merge_partitions", _merge_partitions),
        (group_partitioner, "_DependencyViewer", DependencyViewer),
        (partitioner, "_DependencyViewer", DependencyViewer),
    )


UNIT = Unit(
    name="dependency_viewer",
    relies_on={
        "executorch.exir.backend.canonical_partitioners.group_partitioner": {
            "_DependencyViewer": "a6d3ee37edb6ec3a",
            "GroupBasedPartitioner": "fb0bdbfa065f977f",
        },
        "torch.fx.passes.infra.partitioner": {
            "_DependencyViewer": "47bacdf03efdce20",
            "CapabilityBasedPartitioner.__init__": "657423ae157fa2dd",
        },
        "torch.fx.passes.utils.fuser_utils": {
            "validate_partition": "a0c37557e1ac636a",
        },
    },
    install=_install,
)
