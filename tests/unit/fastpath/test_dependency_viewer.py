"""Partitions are merged as upstream merges them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from etfast import dependency_viewer, path
from executorch.exir.backend.canonical_partitioners.group_partitioner import GroupBasedPartitioner
from torch.fx import Graph, GraphModule
from torch.fx.passes.operator_support import OperatorSupportBase

TAKEN = (torch.mul, torch.relu, torch.add)


class Support(OperatorSupportBase):
    """All but some functions, which are what a path can leave a partition by."""

    def is_node_supported(self, submodules: object, node: torch.fx.Node) -> bool:
        return node.op == "call_function" and node.target in TAKEN


def random_module(seed: int) -> tuple[GraphModule, list[list[torch.fx.Node]]]:
    """A graph, and groups of nodes that must stay together, some of them far apart."""
    draw = random.Random(seed)
    graph = Graph()
    nodes = [graph.placeholder("x"), graph.placeholder("y")]
    for _ in range(40):
        function = draw.choice([*TAKEN, torch.sin, torch.cos])
        count = 2 if function in (torch.mul, torch.add) else 1
        nodes.append(graph.call_function(function, tuple(draw.choices(nodes[-8:], k=count))))
    graph.output(tuple(nodes[-3:]))
    module = GraphModule(torch.nn.Module(), graph)
    able = [n for n in nodes if n.op == "call_function" and n.target in TAKEN]
    draw.shuffle(able)
    return module, [able[:2], able[2:4], able[4:6]]


def partitions(seed: int, single: bool) -> list[list[str]]:
    """The names of each partition's nodes."""
    module, groups = random_module(seed)
    result = GroupBasedPartitioner(
        module, Support(), allows_single_node_partition=single, node_groups=groups
    ).propose_partitions()
    return [sorted(n.name for n in partition.nodes) for partition in result]


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_as_upstream(seed: int, single: bool) -> None:
    """The same partitions in the same order; groups that span cycles are among them."""
    theirs = partitions(seed, single)
    with path.installed(path.units(["dependency_viewer"])) as used:
        assert used.active == ["dependency_viewer"]
        assert partitions(seed, single) == theirs


def test_a_graph_that_changed_is_left_to_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results from when the partitioner was made no longer hold."""
    called = _counted(monkeypatch)
    with path.installed(path.units(["dependency_viewer"])):
        module, groups = random_module(1)
        partitioner = GroupBasedPartitioner(module, Support(), True, node_groups=groups)
        assert partitioner.propose_partitions()
        assert not called
        output = module.graph.output_node()
        with module.graph.inserting_before(output):
            module.graph.call_function(torch.relu, (output.args[0][0],))
        partitioner.propose_partitions()
    assert called


def test_a_partitioner_of_ones_own_is_left_to_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have another idea of what can be merged."""
    called = _counted(monkeypatch)

    class Own(GroupBasedPartitioner):
        def _can_merge_partitions(self, p1: int, p2: int, partitions_by_id: object) -> bool:
            return False

    with path.installed(path.units(["dependency_viewer"])):
        module, _ = random_module(1)
        result = Own(module, Support(), True).propose_partitions()
    assert called and all(partition.size() == 1 for partition in result)


def test_sets_of_the_viewer() -> None:
    """Torch's own partitioner asks for them."""
    module, _ = random_module(4)
    ours = dependency_viewer.DependencyViewer(module)
    with_sets = GroupBasedPartitioner(module, Support()).dependency_viewer
    for node in module.graph.nodes:
        assert ours.downstreams_of(node) == with_sets.downstreams_of(node)
        assert ours.upstreams_of(node) == with_sets.upstreams_of(node)


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    called: list[bool] = []
    upstream: Callable[..., None] = GroupBasedPartitioner._merge_partitions

    def counted(*args: object) -> None:
        called.append(True)
        upstream(*args)

    monkeypatch.setattr(GroupBasedPartitioner, "_merge_partitions", counted)
    return called
