"""Tags by which upstream knows of each operator the part of a program that it is compiled with.

A partitioner gives one to each operator and constant that it takes; what has none is ExecuTorch's.
"""

from __future__ import annotations

from typing import Any

from torch.fx import Node

# The key of upstream's partitioners in a node's `meta`.
TAG = "delegation_tag"


def of(node: Node) -> str | None:
    """Returns the tag of a node's part; None: it is in none."""
    tag: str | None = node.meta.get(TAG)
    return tag


def readers_outside(node: Node) -> list[Node]:
    """Lists the nodes that read a node's value and are not in its part.

    Example:

        is_result = bool(partition_tags.readers_outside(node))
    """
    own = of(node)
    return [user for user in node.users if of(user) != own]


def without(node: Node) -> dict[str, Any]:
    """Returns a copy of a node's `meta` without a tag."""
    return {key: value for key, value in node.meta.items() if key != TAG}


def is_read(part: Any) -> bool:
    """Tells whether anything outside of a part, upstream's `Partition`, reads what it computes.

    Of a part of checks of sizes alone nothing does: it would have no results.
    """
    nodes = set(part.nodes)
    return any(user not in nodes for node in nodes for user in node.users)
