"""A value has one scale where it is quantized, and others follow from that one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from etlower import operators
from qualcomm_scales import centered, in_a_row, in_given_scale, in_results_scale
from torch import Tensor

QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default
PLACES = torch.ones(1, 2, 3, 4, dtype=torch.int64)


def scaled(x: Tensor, scale: float) -> Tensor:
    values = (scale, 0, -128, 127, torch.int8)
    return DEQUANTIZE(QUANTIZE(x, *values), *values)


class Several(torch.nn.Module):
    """Two scales of one value, the coarser one twice, and one of another."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = x.sin()
        coarse = scaled(y.clone(), 0.1)
        return coarse, scaled(y, 0.1), scaled(y.clone().detach(), 0.01), scaled(x, 0.05)


def test_the_finest_comes_first() -> None:
    x = torch.randn(50, generator=torch.Generator().manual_seed(0))
    graph = in_a_row(torch.export.export(Several(), (x,), strict=True).module(check_guards=False))
    graph.graph.lint()
    quantized = graph.graph.find_nodes(op="call_function", target=QUANTIZE)
    of = {(operators.packet(node.args[0]), node.args[1]) for node in quantized}
    assert of == {("sin", 0.01), ("dequantize_per_tensor", 0.1), ("", 0.05)}
    for got, exact in zip(graph(x), Several()(x), strict=True):
        # One step of the coarser scale, where rounding twice differs.
        assert (got - exact).abs().max() < 0.11


def test_one_scale_stays_as_it_is() -> None:
    graph = torch.export.export(_Same(), (torch.randn(5),), strict=True).module(check_guards=False)
    before = str(graph.graph)
    assert str(in_a_row(graph).graph) == before


class _Same(torch.nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.sin()
        return scaled(y, 0.1), scaled(y.clone(), 0.1)


def test_inputs_stay_before_all_else() -> None:
    class Inputs(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return scaled(x, 0.1) + y, scaled(x, 0.05)

    inputs = (torch.randn(5), torch.randn(5))
    graph = in_a_row(torch.export.export(Inputs(), inputs, strict=True).module(check_guards=False))
    assert [node.op for node in graph.graph.nodes][:2] == ["placeholder", "placeholder"]
    for got, exact in zip(graph(*inputs), Inputs()(*inputs), strict=True):
        assert (got - exact).abs().max() < 0.11


def test_what_is_written_has_the_results_scale() -> None:
    class Writing(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            written = torch.ops.aten.copy(x[2:], scaled(x[2:].relu(), 0.01))
            return scaled(scaled(x, 0.05).slice_scatter(scaled(written, 0.05), 0, 2), 0.05)

    x = torch.linspace(-1, 1, 5)
    exported = torch.export.export(Writing(), (x,), strict=True)
    graph = in_results_scale(exported.module(check_guards=False))
    [copy] = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.copy.default)
    steps = copy.args[1].args[0]
    assert (copy.args[1].args[1], steps.args[1], steps.args[0].args[1]) == (0.05, 0.05, 0.01)
    assert (graph(x) - Writing()(x)).abs().max() < 0.03


def _steps(x: Tensor, scale: float, zero: int) -> Tensor:
    values = (scale, zero, 0, 255, torch.uint8)
    return DEQUANTIZE(QUANTIZE(x, *values), *values)


@pytest.mark.parametrize(
    ("zero", "expected"), [(128, 128), (127, 128), (112, 128), (144, 128), (111, 111), (0, 0)]
)
def test_second_factors_have_a_zero_in_the_middle(zero: int, expected: int) -> None:
    """QNN cuts off the steps at one end where it is near."""

    class Product(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            first = _steps(x, 0.1, 120)
            return first @ _steps(y + y, 0.1, zero) + first.bmm(first)

    numbers = torch.arange(256.0).view(1, 16, 16)
    inputs = (numbers / 2560, (numbers - zero) * 0.05)
    exact = Product()(*inputs)
    graph = centered(torch.export.export(Product(), inputs, strict=True).module(check_guards=False))
    graph.graph.lint()
    products = [n for n in graph.graph.nodes if operators.packet(n) in ("matmul", "bmm")]
    assert [node.args[0].args[2] for node in products] == [120, 120]
    assert [node.args[1].args[2] for node in products] == [expected, 128]
    scale = products[0].args[1].args[1]
    assert (0 - expected) * scale <= (0 - zero) * 0.1 + 1e-6
    assert (255 - expected) * scale >= (255 - zero) * 0.1 - 1e-6
    assert (graph(*inputs) - exact).abs().max() < 0.02 * exact.abs().max()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: torch.take_along_dim(x, PLACES, 1),
        lambda x: x.movedim(1, 2),
        lambda x: x.clone(),
    ],
)
def test_moved_numbers_keep_their_scale_first(function: Callable[[Tensor], Tensor]) -> None:
    """QNN takes the steps that it moves for those of the result's scale."""

    class Moved(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return scaled(function(scaled(x, 0.1)), 0.07)

    x = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    graph = in_given_scale(
        torch.export.export(Moved(), (x,), strict=False).module(check_guards=False)
    )
    graph.graph.lint()
    quantized = graph.graph.find_nodes(op="call_function", target=QUANTIZE)
    assert [node.args[1] for node in quantized] == [0.1, 0.1, 0.07]
    torch.testing.assert_close(graph(x), Moved()(x))
