"""Floating-point operations, against torch's own counter and by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from etlower.flops import flops
from executorch.exir import to_edge
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode


class Call(torch.nn.Module):
    """A model that calls one function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Calls the function."""
        return self.function(*inputs)


def counted(function: Any, *inputs: torch.Tensor, edge: bool = True, **more: Any) -> int:
    """Operations of all nodes of a model that calls a function."""
    program = torch.export.export(Call(function), inputs, strict=True, **more)
    if edge:
        program = to_edge(program).exported_program()
    return sum(flops(node) for node in program.graph.nodes)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


CONTRACTIONS = {
    "mm": (torch.mm, randn(3, 5), randn(5, 7)),
    "addmm": (torch.addmm, randn(7), randn(3, 5), randn(5, 7)),
    "bmm": (torch.bmm, randn(2, 3, 5), randn(2, 5, 7)),
    "linear": (functional.linear, randn(2, 3, 5), randn(7, 5)),
    "conv1d": (functional.conv1d, randn(2, 4, 9), randn(6, 4, 3)),
    "conv2d": (
        lambda x, w: functional.conv2d(x, w, stride=2),
        randn(1, 4, 9, 9),
        randn(6, 4, 3, 3),
    ),
    "depthwise": (
        lambda x, w: functional.conv2d(x, w, groups=4, padding=1),
        randn(1, 4, 9, 9),
        randn(8, 1, 3, 3),
    ),
    "transposed": (functional.conv_transpose2d, randn(2, 4, 9, 9), randn(4, 6, 3, 3)),
}


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_contractions_are_as_torch_counts_them(name: str) -> None:
    """In the edge dialect, where addmm has a bias and linear may be an addmm."""
    function, *inputs = CONTRACTIONS[name]
    with FlopCounterMode(display=False) as counter:
        function(*inputs)
    assert counted(function, *inputs) == counter.get_total_flops() > 0


def test_attention() -> None:
    """Torch counts the kernel that it chooses; here it is the operator as exported."""
    inputs = randn(2, 3, 4, 8), randn(2, 3, 6, 8), randn(2, 3, 6, 8)
    with FlopCounterMode(display=False) as counter:
        query, key, value = inputs
        functional.softmax(query @ key.mT, -1) @ value
    result = counted(functional.scaled_dot_product_attention, *inputs, edge=False)
    assert result == counter.get_total_flops() == 2 * 2 * 3 * 4 * 6 * (8 + 8)


def test_attention_of_executorch() -> None:
    """ExecuTorch's own kernel has positions before heads, and works on a whole cache."""
    graph = torch.fx.Graph()
    shapes = (1, 2, 9, 64), (1, 2, 3, 64), (1, 2, 3, 64), (1, 256, 3, 64), (1, 256, 3, 64)
    nodes = []
    for shape in shapes:
        nodes.append(graph.placeholder("x"))
        nodes[-1].meta["val"] = torch.zeros(shape)
    pytest.importorskip("executorch.extension.llm.custom_ops.custom_ops")
    operator = torch.ops.llama.sdpa_with_kv_cache.default
    node = graph.call_function(operator, (*nodes, 5, 2))
    node.meta["val"] = torch.zeros(shapes[0])
    assert flops(node) == 2 * 2 * 9 * 256 * (64 + 64)


def test_an_operator_with_other_arguments_counts_what_it_makes() -> None:
    """A linear layer whose input is a scalar, as no model has it."""
    graph = torch.fx.Graph()
    given = graph.placeholder("x")
    given.meta["val"] = torch.zeros(())
    node = graph.call_function(torch.ops.aten.linear.default, (given, given))
    node.meta["val"] = torch.zeros(2, 3)
    assert flops(node) == 6


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x + 1, 24),
        (lambda x: torch.sin(x), 24),
        (lambda x: torch.softmax(x, -1), 24),
        (lambda x: x.sum(), 24),
        (lambda x: x.mean(-1), 24),
        (lambda x: functional.layer_norm(x, (4,)), 24),
        (lambda x: x.reshape(6, 4).t().contiguous(), 0),
        (lambda x: torch.cat([x, x])[:1, ..., ::2], 0),
        (lambda x: x.half().float(), 0),
        (lambda x: functional.max_pool2d(x[None], 2), 2 * 1 * 2 * 4),
        (lambda x: functional.adaptive_avg_pool2d(x[None], 1), 24),
    ],
)
def test_other_operators(function: Any, expected: int) -> None:
    """One for each element that is made, or taken by a reduction; nothing for what is moved."""
    assert counted(function, randn(2, 3, 4)) == expected


def test_arithmetic_on_indices_is_not_floating_point() -> None:
    """But making numbers out of them is."""
    indices = torch.arange(6)
    assert counted(lambda x: (x + 1) // 2 > 3, indices) == 0
    assert counted(lambda x: torch.sin(x), indices) == 6
    assert counted(lambda x: x > 0, randn(6)) == 6


def test_a_dynamic_dimension_counts_with_its_upper_bound() -> None:
    many = {"inputs": ({0: torch.export.Dim("n", min=1, max=100)},)}
    assert counted(torch.sin, randn(3, 4), dynamic_shapes=many) == 100 * 4
    endless = {"inputs": ({0: torch.export.Dim("n", min=1)},)}
    assert counted(torch.sin, randn(3, 4), dynamic_shapes=endless) == 3 * 4
