"""Divisors that a small number keeps from zero are computed in floats, and others are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from etbuild import Method, ModelSpec
from etlower import guarded_divisors, operators
from etlower.stages import Watch
from quiet_torch import outputs, run, xnnpack
from torch import nn

Rows = Callable[[torch.Tensor], torch.Tensor]

QUOTIENTS: dict[str, Rows] = {
    "normalize": lambda x: F.normalize(x, dim=1),
    "shares": lambda x: x / (x.abs().sum(1, keepdim=True) + 1e-5),
    "shares, with a bound": lambda x: x / x.abs().sum(1, keepdim=True).clamp(min=1e-6),
    "of the largest": lambda x: x / (x.abs().amax(1, keepdim=True) + 1e-8),
    "a reciprocal": lambda x: x * (x.abs().sum(1, keepdim=True) + 1e-3).reciprocal(),
    "a root": lambda x: x / ((x * x).sum(1, keepdim=True) + 1e-12).sqrt(),
    "a view between": lambda x: x / (x.abs().sum(1) + 1e-5)[:, None].expand_as(x),
    "a constant": lambda x: x / torch.maximum(x.abs().sum(1, True), torch.tensor(1e-4)),
}
OTHERS: dict[str, Rows] = {
    "a large number": lambda x: x / (x.abs() + 1),
    "no divisor": lambda x: x + 1e-5,
    "the dividend": lambda x: (x.abs() + 1e-5) / 3.0,
    "without a number": lambda x: x / x.abs().sum(1, keepdim=True),
}


class Function(nn.Module):
    """A function of what a layer gives."""

    def __init__(self, function: Rows) -> None:
        super().__init__()
        self.function, self.layer = function, nn.Linear(6, 6, bias=False)
        nn.init.eye_(self.layer.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.layer(x))


@pytest.mark.parametrize("name", QUOTIENTS)
def test_rows_of_zeros(name: str, tmp_path: Path) -> None:
    """They are zeros behind it, and no NaN."""
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    x[2] = 0
    net = Function(QUOTIENTS[name]).eval()
    spec = ModelSpec({"forward": Method(net, (x,))})
    manager = run(spec, xnnpack("int8_static_per_channel"))
    [got] = outputs(manager, tmp_path, "forward", x)
    torch.testing.assert_close(got, net(x).detach(), rtol=0, atol=0.03)


@pytest.mark.parametrize("name", [*QUOTIENTS, *OTHERS])
def test_what_is_found(name: str) -> None:
    net = Function({**QUOTIENTS, **OTHERS}[name])
    graph = torch.export.export(net, (torch.randn(8, 6),), strict=True).module(check_guards=False)
    found = {operators.packet(node) for node in guarded_divisors.calls(graph)}
    assert bool(found) == (name in QUOTIENTS)
    assert "linear" not in found


class Views(nn.Module):
    """Two layers, of which one reads a view that is normalized, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x).view(2, 4, 6)
        return self.second(y) + y / (y.norm(dim=2, keepdim=True) + 1e-6)


@pytest.mark.parametrize("recipe", ["int8_static_per_channel", "int8_dynamic_per_channel"])
def test_layers_beside_have_scales(recipe: str) -> None:
    graphs: dict[str, torch.fx.GraphModule] = {}
    spec = ModelSpec({"forward": Method(Views().eval(), (torch.randn(8, 6),))})
    run(spec, xnnpack(recipe), Watch(quantized=graphs.update))
    layers = graphs["forward"].graph.find_nodes(
        op="call_function", target=torch.ops.aten.linear.default
    )
    assert len(layers) == 2
    for layer in layers:
        assert operators.packet(layer.args[0]).startswith("dequantize")
