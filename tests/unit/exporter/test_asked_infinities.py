"""Questions for infinities and NaN are found, and answered without them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from etlower import asked_infinities, infinities, operators
from torch.fx import GraphModule
from torchao.quantization.pt2e import MinMaxObserver

_SCORES = torch.linspace(-2, 2, 12).reshape(3, 4)
_HIDDEN = torch.tensor([[0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]]) > 0


def captured(function: Callable[..., Any], *inputs: torch.Tensor) -> GraphModule:
    """The graph of a function."""

    class Net(torch.nn.Module):
        def forward(self, *given: torch.Tensor) -> Any:
            return function(*given)

    return torch.export.export(Net().eval(), inputs, strict=True).module(check_guards=False)


def packets(graph: GraphModule) -> list[str]:
    """The names of its operators."""
    return [name for node in graph.graph.nodes if (name := operators.packet(node))]


_MASKS: dict[str, Callable[..., torch.Tensor]] = {
    "masked_fill": lambda x, m: x.masked_fill(m, -math.inf),
    "where": lambda x, m: torch.where(m, -math.inf, x),
    "where not": lambda x, m: torch.where(~m, x, -math.inf),
    "two": lambda x, m: x.masked_fill(m[:1], -math.inf).masked_fill(m | ~m[:1], -math.inf),
}
_QUESTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nan_to_num": torch.nan_to_num,
    "nan_to_num of 2": lambda x: torch.nan_to_num(x, 2.0),
    "isnan": lambda x: x.masked_fill(torch.isnan(x), 0),
    "isfinite": lambda x: torch.where(torch.isfinite(x), x, 3.0),
    "differs": lambda x: torch.where(x != x, torch.zeros_like(x), x),
    "equals": lambda x: torch.where(x == x, x, 1.0),
    "isinf": lambda x: torch.nan_to_num(x).masked_fill(torch.isinf(x) | (x == math.inf), 9.0),
    "dropout": lambda x: torch.nan_to_num(torch.dropout(x, 0.5, train=False)),
}


@pytest.mark.few(12)
@pytest.mark.parametrize("mask", sorted(_MASKS))
@pytest.mark.parametrize("question", sorted(_QUESTIONS))
def test_a_mask_says_which_rows_are_hidden(mask: str, question: str) -> None:
    """With a number for -inf, as quantizers write it, the results are the same."""

    def function(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return _QUESTIONS[question](_MASKS[mask](x, m).softmax(-1))

    graph = captured(function, _SCORES, _HIDDEN)
    asked_infinities.write_out(graph)
    for node in graph.graph.nodes:
        node.args = tuple(-255.0 if arg == -math.inf else arg for arg in node.args)
    graph.recompile()
    torch.testing.assert_close(graph(_SCORES, _HIDDEN), function(_SCORES, _HIDDEN))


@pytest.mark.parametrize("number", [math.inf, -math.inf])
@pytest.mark.parametrize("differs", [False, True])
def test_infinities_are_compared_without_their_number(number: float, differs: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (1 / x) != number if differs else (1 / x) == number

    x = torch.tensor([0.0, -0.0, 2.0, math.nan])
    graph = captured(function, x)
    asked_infinities.write_out(graph)
    assert not {"eq", "ne"} & {*packets(graph)}
    assert torch.equal(graph(x), function(x))


def test_what_is_read_elsewhere_keeps_its_question() -> None:
    """The NaN of a hidden row would be a number for the other reader."""

    def function(x: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = x.masked_fill(m, -math.inf).softmax(-1)
        return torch.isnan(x), x * 2

    graph = captured(function, _SCORES, _HIDDEN)
    asked_infinities.write_out(graph)
    assert "isnan" in packets(graph)


def test_asked_are_functions_up_to_layers() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = (x @ w).abs().rsqrt().reshape(-1)
        return y.masked_fill(torch.isinf(y), 0), torch.relu(x).sqrt()

    graph = captured(function, torch.randn(2, 3), torch.randn(3, 4))
    found = asked_infinities.asked(graph.graph)
    assert sorted(map(operators.packet, found)) == ["abs", "reshape", "rsqrt"]
    readers = asked_infinities.readers(found) - found
    assert sorted(map(operators.packet, readers)) == ["isinf", "masked_fill"]


def test_observers_see_no_infinities_and_pass_them_on() -> None:
    """A histogram fails on them; what reads the value gets it as it is."""
    graph = captured(lambda x: x.reciprocal().atan(), torch.ones(3))
    [node] = [n for n in graph.graph.nodes if operators.packet(n) == "reciprocal"]
    graph.add_submodule("observer", MinMaxObserver())
    with graph.graph.inserting_after(node):
        observed = graph.graph.call_module("observer", (node,))
    node.replace_all_uses_with(observed, lambda user: user is not observed)
    graph.recompile()
    watched = infinities.Watched(graph)
    x = torch.tensor([0.0, 1.0, 4.0])
    assert torch.equal(graph(x), x.reciprocal().atan())
    watched.end()
    assert watched.names == {"reciprocal"}
    assert graph.observer.max_val == 1
