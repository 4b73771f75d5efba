"""The origin of a node is shared, in a list of its own."""

from __future__ import annotations

import torch
from etfast import path
from torch.fx import Graph
from torch.fx.traceback import NodeSource, NodeSourceAction


def chain(length: int) -> NodeSource:
    """The origin of a node that was made anew some times."""
    node = Graph().call_function(torch.relu, ())
    for number in range(length):
        source = NodeSource(node, f"pass {number}", NodeSourceAction.CREATE)
        node.meta["from_node"] = [source]
    return source


def test_sources_are_shared_and_their_lists_are_not() -> None:
    with path.installed(path.units(["node_source"])) as used:
        assert used.active == ["node_source"]
        source = chain(3)
        node = Graph().call_function(torch.relu, ())
        node.meta["from_node"] = [source]
        again = NodeSource(node, "pass 3")
    assert again.from_node == [source] and again.from_node[0] is source
    assert again.from_node is not node.meta["from_node"]


def test_upstream_says_the_same() -> None:
    def passes(source: NodeSource) -> list[str]:
        names = [source.pass_name]
        while source.from_node:
            [source] = source.from_node
            names.append(source.pass_name)
        return names

    with path.installed(path.units(["node_source"])):
        fast = passes(chain(4))
    assert fast == passes(chain(4)) == ["pass 3", "pass 2", "pass 1", "pass 0"]


def test_other_values_are_copied_deeply() -> None:
    with path.installed(path.units(["node_source"])):
        node = Graph().call_function(torch.relu, ())
        node.meta["from_node"] = [{"name": ["a"]}]
        made = NodeSource(node)
    assert made.from_node == [{"name": ["a"]}]
    assert made.from_node[0]["name"] is not node.meta["from_node"][0]["name"]
