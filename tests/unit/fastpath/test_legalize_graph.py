"""Sorting in place: the order, the names and the users of a graph that upstream makes anew."""

from __future__ import annotations

import copy
import operator
import random

import pytest
import torch
from etfast.legalize_graph import sort_in_place
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.tools_common import legalize_graph


def random_graph(seed: int, size: int = 60) -> GraphModule:
    """A graph in no order, with nodes of several results, prioritized ones, and names with gaps."""
    draw = random.Random(seed)
    graph = Graph()
    nodes = [graph.placeholder(f"x_{n}") for n in (0, 3, 7)]
    for _ in range(size):
        sources = draw.sample(nodes, 2)
        function = draw.choice([torch.add, torch.mul, operator.add, operator.mul, torch.relu])
        count = 1 if function is torch.relu else 2
        nodes.append(graph.call_function(function, tuple(sources[:count])))
    graph.output(tuple(draw.sample(nodes, 5)))
    # Names that a new graph's name space counts from.
    for node in draw.sample(nodes[3:], 10):
        node._rename(f"{node.name}_{draw.randint(1, 99)}")
    module = GraphModule(torch.nn.Module(), graph)
    middle = [n for n in graph.nodes if n.op == "call_function"]
    for node in draw.sample(middle, 10):
        middle[-1].append(node)
    return module


def described(module: GraphModule) -> list[tuple[str, list[str], list[str], tuple[str, ...]]]:
    """Nodes in order, with inputs and users in theirs."""
    return [
        (n.name, [u.name for u in n.users], [i.name for i in n.all_input_nodes], tuple(n.meta))
        for n in module.graph.nodes
    ]


@pytest.mark.parametrize("seed", range(20))
def test_as_upstream(seed: int) -> None:
    """Twice in a row, with a node more between: its name depends on the name space."""
    theirs, ours = random_graph(seed), random_graph(seed)
    for _ in range(2):
        legalize_graph(theirs)
        sort_in_place(ours, _unwanted)
        assert described(ours) == described(theirs)
        ours.graph.lint()
        assert ours.graph._graph_namespace._used_names == theirs.graph._graph_namespace._used_names
        for module in (theirs, ours):
            last = next(n for n in reversed(module.graph.nodes) if n.op == "call_function")
            with module.graph.inserting_after(last):
                for function in (torch.add, torch.relu, operator.mul):
                    module.graph.call_function(function, (last, last))
    assert described(ours) == described(theirs)
    assert ours.code == theirs.code


def test_nodes_stay() -> None:
    """Holders of a node hold one of the sorted graph."""
    module = random_graph(1)
    nodes = set(module.graph.nodes)
    sort_in_place(module, _unwanted)
    assert set(module.graph.nodes) == nodes
    assert list(reversed(module.graph.nodes)) == list(module.graph.nodes)[::-1]
    result = module.graph.find_nodes(op="call_function", target=torch.add)
    assert result == [n for n in module.graph.nodes if n.target is torch.add]


def test_a_cycle() -> None:
    """As upstream: it says which nodes."""
    module = random_graph(2)
    nodes: list[Node] = [n for n in module.graph.nodes if n.op == "call_function"]
    nodes[0].args = (nodes[-1], *nodes[0].args[1:])
    nodes[-1].args = (nodes[0], *nodes[-1].args[1:])
    with pytest.raises(RuntimeError, match="Input graph has cycles, unable to add"):
        sort_in_place(module, _unwanted)


def test_names_that_change_are_left_to_upstream() -> None:
    """A new graph gives equal names numbers, so upstream's function must run."""
    module = random_graph(3)
    first, second = [n for n in module.graph.nodes if n.op == "call_function"][:2]
    second.name = first.name
    theirs = copy.copy(module)
    called = []
    sort_in_place(theirs, lambda gm: called.append(gm) or legalize_graph(gm))
    assert called
    assert len({n.name for n in theirs.graph.nodes}) == len(theirs.graph.nodes)


def _unwanted(module: GraphModule) -> GraphModule:
    raise AssertionError("upstream's function was called")
