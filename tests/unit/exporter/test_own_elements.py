"""Comparisons of a tensor with its own elements are found, and what picks these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from etlower import operators, own_elements
from executorch.exir import to_edge

X, Y = torch.randn(1, 4, 6, 8), torch.randn(1, 4, 6, 8)


class Net(torch.nn.Module):
    """A function of two pictures."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        """x and y of one shape"""
        return self.function(x, y)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x, y: x == x.amax(1, True), {"amax", "eq"}),
        (lambda x, y: F.max_pool2d(x, 3, 1, 1) >= x, {"ge", "max_pool2d"}),
        (lambda x, y: x.relu() != x.relu().flip(1), {"flip", "ne", "relu"}),
        (lambda x, y: torch.maximum(x, y) > y * 1.0, set()),
        (lambda x, y: torch.maximum(x, y) > y, {"gt", "maximum"}),
        (lambda x, y: x[:, 1:].clone() < x[:, :-1], {"clone", "lt", "slice"}),
        (lambda x, y: x.mean(1, True) < x, set()),
        (lambda x, y: x.amax(1, True) == y, set()),
        (lambda x, y: x.amax(1, True) == 1.5, set()),
    ],
)
def test_what_is_compared(function: Callable[..., Any], names: set[str]) -> None:
    program = torch.export.export(Net(function), (X, Y))
    for graph in (program.graph, to_edge(program).exported_program().graph):
        assert {_called(node) for node in own_elements.compared(graph)} - {""} == names


def _called(node: torch.fx.Node) -> str:
    """An operator's name in both dialects; "": it picks one of several results."""
    name = operators.packet(node).strip("_")
    for end in ("_copy", "_dim_order", "_with_indices"):
        name = name.removesuffix(end)
    return name
