"""Code of graphs is there whenever it is asked for, of the graph as it is then."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator

import pytest
import torch
from etfast import path
from torch.fx import Graph, GraphModule


@pytest.fixture(autouse=True)
def _lazy() -> Iterator[None]:
    with path.installed(path.units(["recompile"])) as used:
        assert used.active == ["recompile"]
        yield


def module(count: int = 1) -> GraphModule:
    """x + 1, so many times."""
    graph = Graph()
    last = graph.placeholder("x")
    for _ in range(count):
        last = graph.call_function(torch.add, (last, 1))
    graph.output(last)
    return GraphModule(torch.nn.Module(), graph)


def doubled(given: GraphModule) -> GraphModule:
    """Makes it add twice as much, and says so to it."""
    node = next(n for n in given.graph.nodes if n.op == "call_function")
    node.args = (node.args[0], 2)
    given.recompile()
    return given


def test_nothing_is_generated_until_it_is_asked_for() -> None:
    """Generating late is the point of it."""
    result = doubled(module())
    assert "_code" not in vars(result)
    assert result(torch.zeros(1)) == 2
    assert "_code" in vars(result)


@pytest.mark.parametrize("called_before", [True, False])
def test_a_change_is_seen(called_before: bool) -> None:
    """By a call, by forward, by the class's forward and by the code."""
    result = module()
    if called_before:
        assert result(torch.zeros(1)) == 1
    doubled(result)
    assert result.forward(torch.zeros(1)) == 2
    assert type(result).forward(result, torch.zeros(1)) == 2
    assert "torch.add(x, 2)" in result.code
    assert list(inspect.signature(doubled(module()).forward).parameters) == ["x"]


def test_two_modules_have_code_of_their_own() -> None:
    """The functions are kept in classes: one for each module."""
    one, two = module(1), module(2)
    assert (one(torch.zeros(1)), two(torch.zeros(1))) == (1, 2)
    other = copy.deepcopy(doubled(one))
    doubled(module())
    assert (one(torch.zeros(1)), other(torch.zeros(1))) == (2, 2)


def test_a_module_in_a_module() -> None:
    """Recompiling the outer one recompiles those in it."""
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("inner", (x,)))
    root = torch.nn.Module()
    root.inner = module()
    outer = GraphModule(root, graph)
    assert outer(torch.zeros(1)) == 1
    node = next(n for n in outer.inner.graph.nodes if n.op == "call_function")
    node.args = (node.args[0], 5)
    outer.recompile()
    assert outer(torch.zeros(1)) == 5


def test_pickles_and_what_recompile_returns() -> None:
    """Both need the code."""
    result = module()
    assert "def forward(self, x)" in result.recompile().src
    assert pickle.loads(pickle.dumps(doubled(module())))(torch.zeros(1)) == 2


def test_errors_come_as_before() -> None:
    """A call that fails says where, as torch's wrapper does."""
    with pytest.raises(RuntimeError, match="must match the size"):
        graph = Graph()
        x, y = graph.placeholder("x"), graph.placeholder("y")
        graph.output(graph.call_function(torch.add, (x, y)))
        GraphModule(torch.nn.Module(), graph)(torch.zeros(2), torch.zeros(3))


def test_after_the_fast_path() -> None:
    """Modules outlive it."""
    with path.installed(path.units(["recompile"])):
        result = doubled(module())
    assert result(torch.zeros(1)) == 2
    assert "torch.add(x, 2)" in result.code
