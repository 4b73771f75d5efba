"""Constants are stored before quantization; what an input, a write or chance decides is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from etbuild import fold_constants
from torch import nn
from torch.fx import GraphModule
from torch.nn import functional

aten = torch.ops.aten


class Net(nn.Module):
    """Calls a function of a module with a weight and a buffer, and of an input."""

    def __init__(self, function: Callable[[Net, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(12, 4))
        self.register_buffer("state", torch.zeros(4))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(3, 4) to whatever the function returns."""
        return self.function(self, x)


def _folded(function: Callable[[Net, torch.Tensor], torch.Tensor]) -> tuple[GraphModule, list[str]]:
    """The folded graph, which computes what it did, and its operators."""
    torch.manual_seed(0)
    net, x = Net(function).eval(), torch.randn(3, 4)
    graph = torch.export.export(net, (x,)).module(check_guards=False)
    torch.manual_seed(1)
    want = net(x)
    net.state.zero_()
    torch.manual_seed(1)
    torch.testing.assert_close(fold_constants(graph)(x), want, rtol=0, atol=0)
    return graph, [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda m, x: x @ m.weight.chunk(3)[1].T, ["aten.matmul.default"]),
        (lambda m, x: x @ m.weight.unflatten(0, (3, 4)).sum(0), ["aten.matmul.default"]),
        (lambda m, x: x + torch.arange(4) * 2, ["aten.add.Tensor"]),
        # The values of what they are like do not count.
        (lambda m, x: x + (torch.zeros_like(x) + 1) * x.new_full((4,), 3), ["aten.add.Tensor"]),
        (lambda m, x: x.masked_fill(torch.ones(3, 4).tril() == 0, 7), ["aten.masked_fill.Scalar"]),
        (
            lambda m, x: x * 2 + x.mean(),
            ["aten.mul.Tensor", "aten.mean.default", "aten.add.Tensor"],
        ),
        # Of two of a weight's parts both are stored, once each.
        (lambda m, x: x @ m.weight[:4] + x @ m.weight[4:8], 2 * ["aten.matmul.default"]),
        (lambda m, x: x + torch.rand(4), ["aten.rand.default", "aten.add.Tensor"]),
        # What is written to lies beside the weight that it follows from.
        (
            lambda m, x: (x @ m.weight[:4]).relu_(),
            ["aten.matmul.default", "aten.relu_.default"],
        ),
        # A mask of 4 MB is made of nothing, and stays three operators.
        (
            lambda m, x: x * (torch.ones(1024, 1024).tril() * 2)[:3, :4],
            ["aten.ones.default", "aten.tril.default", "aten.mul.Tensor"],
        ),
    ],
)
def test_folded(function: Callable[[Net, torch.Tensor], torch.Tensor], left: list[str]) -> None:
    graph, operators = _folded(function)
    assert operators[: len(left)] == left
    read = {node.target for node in graph.graph.nodes if node.op == "get_attr"}
    stored = {name for name, _ in (*graph.named_parameters(), *graph.named_buffers())}
    assert stored - {"state", "weight"} <= read
    assert ("weight" in stored) == ("weight" in read), "nothing keeps a weight that nothing reads"


@pytest.mark.parametrize(
    "view",
    [
        lambda state: state.view(2, 2),
        lambda state: state.chunk(2)[1],
        # Their schemas say nothing of the memory that they share.
        lambda state: functional.dropout(state, training=False),
        torch.atleast_2d,
    ],
)
def test_what_a_call_changes_is_not_constant(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def counts(m: Net, x: torch.Tensor) -> torch.Tensor:
        seen = m.state * 2
        view(m.state).add_(1)
        return x + m.state + seen

    graph, operators = _folded(counts)
    assert "aten.mul.Tensor" in operators and "aten.add_.Tensor" in operators
    first = graph(torch.zeros(3, 4))
    assert not torch.equal(graph(torch.zeros(3, 4)), first)


@torch.library.custom_op("folding_test::put", mutates_args=("cache",))
def _put(value: torch.Tensor, cache: torch.Tensor) -> None:
    cache.copy_(value)


class Cached(torch.nn.Module):
    """Writes to what is not the first argument."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Twice the numbers that were written."""
        _put(x, self.cache)
        return self.cache * 2


def test_what_is_written_to_stays() -> None:
    x = torch.arange(3.0)
    graph = torch.export.export(Cached(), (x,)).module(check_guards=False)
    names = [node.target for node in fold_constants(graph).graph.nodes if node.op == "get_attr"]
    assert names == ["cache"]
