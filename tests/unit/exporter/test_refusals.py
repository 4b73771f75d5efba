"""Of a part that a compiler refuses, the operator is found with which it stops being compiled."""

from __future__ import annotations

import operator

import pytest
import torch
from etbuild import LowerAgain
from etlower.refusals import Refusals, Snapshot, succeeding
from executorch.exir.program._program import _get_updated_graph_signature
from torch import nn
from torch.export import ExportedProgram

_CHAIN = [torch.abs, torch.ceil, torch.floor, torch.neg]


class _Chain(nn.Module):
    """Operators behind each other, all of whose results are given; one of them is refused."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self._functions = [*_CHAIN[:place], torch.cos, *_CHAIN[place:]]

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for function in self._functions:
            x = function(x)
            results.append(x)
        return results


def _compile(program: ExportedProgram) -> None:
    """Writes other operators for all, as upstream's passes do, checks, and refuses cosines."""
    graph = program.graph
    for node in list(graph.nodes):
        if node.op == "call_function":
            with graph.inserting_after(node):
                other = graph.call_function(torch.ops.aten.clone.default, (node.args[0],))
            other.meta = node.meta
            node.replace_all_uses_with(other)
            is_refused = node.target is torch.ops.aten.cos.default
            graph.erase_node(node)
            if is_refused:
                raise ValueError("no cosines")
    module = program.graph_module
    program._graph_signature = _get_updated_graph_signature(program.graph_signature, module)
    program.validate()


@pytest.mark.parametrize("place", range(len(_CHAIN) + 1))
def test_the_refused_operator_is_found_wherever_it_is(place: int) -> None:
    program = torch.export.export(_Chain(place), (torch.randn(3),))
    before = Snapshot.of(program)
    node = before.first_refused(succeeding(_compile))
    assert node is not None
    assert node.target is torch.ops.aten.cos.default
    refusals = Refusals()
    with pytest.raises(LowerAgain):
        refusals.find(before, _compile, ValueError("no cosines"))
    calls = [n for n in before.graph.nodes if n.op == "call_function"]
    assert [n for n in calls if refusals.has(n)] == [calls[place]]


def test_nothing_is_found_where_nothing_is_refused() -> None:
    program = torch.export.export(nn.ReLU(), (torch.randn(3),))
    assert Snapshot.of(program).first_refused(succeeding(_compile)) is None


class _Extremes(nn.Module):
    """An operator with two results, both of which are given."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = torch.max(torch.abs(x), 0)
        return values, places


def test_of_an_operator_with_several_results_it_is_the_operator() -> None:
    """A compiler may fail on one of them only; a partitioner leaves the operator out."""

    def refuse(program: ExportedProgram) -> None:
        if any(n.target is operator.getitem and n.args[1] == 1 for n in program.graph.nodes):
            raise ValueError("no places")

    program = torch.export.export(_Extremes(), (torch.randn(3, 2),))
    node = Snapshot.of(program).first_refused(succeeding(refuse))
    assert node is not None
    assert node.target is torch.ops.aten.max.dim
