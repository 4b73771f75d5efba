"""Groups weights by the submodules of their qualified names."""

from __future__ import annotations

from collections.abc import Sequence

from etreport.treemap import Node

# Fewer are shown side by side.
_MANY = 12


def by_module(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Nests nodes whose names are qualified: those of "layers.3.…" below "layers.3".

    Args:
      nodes: of one kind, without children.

    Returns:
      The same bytes; a part with a single node is that node.
    """
    if len(nodes) < _MANY:
        return tuple(nodes)
    start = len(common_prefix([n.name for n in nodes]))
    parts: dict[str, list[Node]] = {}
    for node in nodes:
        parts.setdefault(_part(node.name[start:]), []).append(node)
    if len(parts) < 2 or len(parts) == len(nodes):
        return tuple(nodes)
    groups = []
    for name, inside in parts.items():
        if len(inside) == 1:
            groups.append(inside[0])
        else:
            size = sum(n.size for n in inside)
            groups.append(Node(name, size, inside[0].kind, children=tuple(inside)))
    return tuple(groups)


def common_prefix(names: Sequence[str]) -> str:
    """The components that all qualified names begin with, with the dot: "transformer."."""
    first = names[0].split(".")[:-1] if names else []
    for name in names:
        parts = name.split(".")[:-1]
        while first and parts[: len(first)] != first:
            first.pop()
    return ".".join([*first, ""]) if first else ""


def _part(name: str) -> str:
    """The first component, with the number that follows: "layers.3"."""
    parts = name.split(".")
    numbered = len(parts) > 2 and parts[1].isdecimal()
    return ".".join(parts[:2]) if numbered else parts[0]
