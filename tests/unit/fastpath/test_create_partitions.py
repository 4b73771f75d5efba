"""Partitions are found by their tags, and their cycles by what lies between."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
import torch
from etfast import create_partitions
from torch.fx import Graph, GraphModule
from torch.fx.passes.utils.fuser_utils import validate_partition


def random_module(seed: int) -> GraphModule:
    """A sorted graph of 50 nodes, many of which have two users."""
    draw = random.Random(seed)
    graph = Graph()
    nodes = [graph.placeholder("x"), graph.placeholder("y")]
    for _ in range(50):
        nodes.append(graph.call_function(torch.add, tuple(draw.choices(nodes[-10:], k=2))))
    graph.output(tuple(nodes[-4:]))
    return GraphModule(torch.nn.Module(), graph)


def program(*data: str) -> SimpleNamespace:
    """An exported program's signature with these placeholders as parameters."""
    names = {name: name for name in data}
    signature = SimpleNamespace(
        inputs_to_parameters=names, inputs_to_buffers={}, inputs_to_lifted_tensor_constants={}
    )
    return SimpleNamespace(graph_signature=signature)


@pytest.mark.parametrize("seed", range(10))
def test_cycles_as_upstream_sees_them(seed: int) -> None:
    """Partitions of neighbors and of nodes that are far apart: some have cycles, some have not."""
    module = random_module(seed)
    assert create_partitions.is_sorted(module.graph)
    able = [n for n in module.graph.nodes if n.op == "call_function"]
    draw = random.Random(seed)
    answers = set()
    for _ in range(60):
        start = draw.randrange(len(able) - 8)
        partition = draw.sample(able[start : start + 8], draw.randint(1, 4))
        answers.add(validate_partition(list(partition)))
        assert create_partitions.comes_back(partition) is not validate_partition(list(partition))
    assert answers == {True, False}


def test_a_graph_that_is_not_sorted_is_seen() -> None:
    """There a path may come back from behind."""
    module = random_module(0)
    first = next(n for n in module.graph.nodes if n.op == "call_function")
    module.graph.output_node().prepend(first)
    assert not create_partitions.is_sorted(module.graph)


def test_nodes_by_tag_in_the_order_of_then() -> None:
    """Nodes move while partitions are cut out."""
    module = random_module(1)
    able = [n for n in module.graph.nodes if n.op == "call_function"]
    for number, node in enumerate(able):
        node.meta["delegation_tag"] = f"tag{number % 2}"
    tags = create_partitions.Tags(module, program())
    assert tags.of("tag1") == able[1::2]
    able[1].prepend(able[5])
    assert tags.of("tag1")[:2] == [able[5], able[1]]
    assert tags.of("tag2") == []


def test_messages_are_upstreams() -> None:
    """A partitioner that tags what it must not hears it."""
    module = random_module(2)
    x, y, *_ = nodes = list(module.graph.nodes)
    x.meta["delegation_tag"] = y.meta["delegation_tag"] = "a"
    with pytest.raises(RuntimeError, match="non-params, non-buffer, and non-tensor constants"):
        create_partitions.Tags(module, program("y")).of("a")
    with pytest.raises(RuntimeError, match=r"constant data node \(x\) is tagged with \(a\) but"):
        create_partitions.Tags(module, program("x", "y")).of("a")
    nodes[-1].meta["delegation_tag"] = "b"
    with pytest.raises(RuntimeError, match="output node output should not be tagged"):
        create_partitions.Tags(module, program()).of("b")
