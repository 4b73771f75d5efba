"""A value has one scale where it is quantized, and others follow from that one."""

from __future__ import annotations

import torch
from etlower import operators
from qualcomm_scales import in_a_row, in_results_scale
from torch import Tensor

QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default


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
