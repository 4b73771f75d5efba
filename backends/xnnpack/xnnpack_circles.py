"""Splits parts of a program that need each other's results, which no order of calls gives them.

Upstream (ExecuTorch 1.5.1) takes views for the layer that its patterns find first. Where a product
of the same tensors is in another part, each of the two parts then reads what the other one gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from etlower import partition_tags
from executorch.exir.backend.partitioner import PartitionResult
from torch.fx import Graph, Node


def split(result: PartitionResult) -> None:
    """Gives parts that lie in a circle a tag for each of their pieces, until there is no circle.

    Args:
      result: of a partitioner; its nodes and its tags are changed.
    """
    graph: Graph = result.tagged_exported_program.graph
    tags = result.partition_tags
    while circles := _in_circles(graph):
        for tag in circles:
            calls = [node for node in graph.nodes if node.op == "call_function"]
            nodes = [node for node in calls if partition_tags.of(node) == tag]
            pieces = _connected(nodes)
            # What is connected is split into its calls.
            for number, piece in enumerate(pieces if len(pieces) > 1 else [[n] for n in nodes]):
                own = f"{tag}_{number}"
                tags[own] = tags[tag]
                for node in piece:
                    node.meta[partition_tags.TAG] = own
            del tags[tag]
        for node in graph.find_nodes(op="placeholder"):
            # Parts that read one constant get copies of it later.
            readers = [tag for tag in map(partition_tags.of, node.users) if tag is not None]
            if partition_tags.of(node) in circles:
                node.meta[partition_tags.TAG] = readers[0]


def _in_circles(graph: Graph) -> list[str]:
    """Tags of parts from which a way leads back to themselves over what is not theirs, in order."""
    sources: dict[str, set[str]] = {}
    tags: dict[str, None] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        tag = partition_tags.of(node)
        if tag is not None:
            tags[tag] = None
        given = {_unit(each) for each in node.all_input_nodes if each.op == "call_function"}
        sources.setdefault(_unit(node), set()).update(given - {_unit(node)})
    left = _without_order(sources)
    return [tag for tag in tags if _leads_back(f"part {tag}", left)]


def _without_order(sources: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Calls that no order has, circles and all that follows them, with their sources."""
    left = {unit: set(given) for unit, given in sources.items()}
    readers: dict[str, list[str]] = {}
    for unit, given in sources.items():
        for each in given:
            readers.setdefault(each, []).append(unit)
    ready = [unit for unit, given in sources.items() if not given]
    while ready:
        unit = ready.pop()
        del left[unit]
        for reader in readers.get(unit, ()):
            left[reader].discard(unit)
            if not left[reader]:
                ready.append(reader)
    return left


def _unit(node: Node) -> str:
    """The part that a call is in, or the call alone."""
    tag = partition_tags.of(node)
    return f"call {node.name}" if tag is None else f"part {tag}"


def _leads_back(unit: str, sources: Mapping[str, set[str]]) -> bool:
    seen, queue = set(), [unit]
    while queue:
        for given in sources.get(queue.pop(), ()):
            if given == unit:
                return True
            if given not in seen:
                seen.add(given)
                queue.append(given)
    return False


def _connected(nodes: Iterable[Node]) -> list[list[Node]]:
    """The pieces of a part whose calls read each other's results."""
    pieces: list[list[Node]] = []
    for node in nodes:
        near = [piece for piece in pieces if any(each in node.all_input_nodes for each in piece)]
        pieces = [piece for piece in pieces if piece not in near]
        pieces.append([each for piece in near for each in piece] + [node])
    return pieces
