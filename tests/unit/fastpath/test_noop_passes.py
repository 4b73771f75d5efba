"""A pass traces a graph again when something has changed, and only then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from etfast import path
from executorch.exir import to_edge
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass
from torch.fx import GraphModule


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    with path.installed(path.units(["noop_passes"])) as used:
        assert used.active == ["noop_passes"]
        yield


class Net(torch.nn.Module):
    """Two operators in a row, one of them with a number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(torch.relu(x), 0.5, 2.0)


class Nothing(ExportPass):
    """Looks, and changes nothing."""


class Seeing(ExportPass):
    """Counts the operators that it sees."""

    seen = 0

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        self.seen += 1
        return super().call_operator(op, args, kwargs, meta)


def graph() -> GraphModule:
    program = torch.export.export(Net().eval(), (torch.ones(2, 2),), strict=False)
    return Nothing()(to_edge(program).exported_program().graph_module).graph_module


def described(module: GraphModule) -> list[str]:
    return [f"{node.format_node()} {node.meta['val']}" for node in module.graph.nodes]


def test_an_unchanged_graph_is_not_traced() -> None:
    first = graph()
    second = Nothing()(first)
    assert second.graph_module is first
    assert second.modified
    # A pass that sees nodes is upstream's: it makes the same.
    assert described(Seeing()(first).graph_module) == described(first)


def test_a_pass_that_sees_nodes_sees_all() -> None:
    module = graph()
    seeing = Seeing()
    assert seeing(module).graph_module is not module
    assert seeing.seen == 2


def _argument(module: GraphModule) -> None:
    node = next(n for n in module.graph.nodes if 0.5 in n.args)
    node.args = (node.args[0], 1, 2.0)


def _operator(module: GraphModule) -> None:
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    node.target = exir_ops.edge.aten.tanh.default


def _fact(module: GraphModule) -> None:
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    node.meta["said"] = object()


def _more(module: GraphModule) -> None:
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    with module.graph.inserting_after(node):
        more = module.graph.call_function(exir_ops.edge.aten.tanh.default, (node,))
        more.meta = dict(node.meta)


@pytest.mark.parametrize("change", [_argument, _operator, _fact, _more])
def test_a_changed_graph_is_traced(change: Callable[[GraphModule], None]) -> None:
    module = graph()
    change(module)
    after = Nothing()(module).graph_module
    assert after is not module
    assert len(after.graph.nodes) == len(module.graph.nodes)
