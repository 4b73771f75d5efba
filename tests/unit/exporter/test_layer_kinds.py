"""Layers of all kinds, and what stands before and behind them, in the recipes that quantize."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from etbuild import Method, ModelSpec
from etlower.outputs import sqnr_db
from quiet_torch import outputs, run, xnnpack
from torch import nn

DYNAMIC = "int8_dynamic_per_channel"


class Layers(nn.Module):
    """Two layers, a parameter and a buffer, and a function that uses them."""

    def __init__(self, function: Callable[..., torch.Tensor], *layers: nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)
        self.query = nn.Parameter(torch.randn(4, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """An input of the case's shape."""
        return self.function(x, self.query, *self.layers)


Case = tuple[Callable[..., torch.Tensor], tuple[Callable[[], nn.Module], ...], tuple[int, ...]]
PICTURE, ROWS = (1, 3, 8, 8), (4, 32)


def linear() -> nn.Module:
    return nn.Linear(32, 32)


# Each failed to be lowered or to run in 8 dynamic bits, or its neighbor did.
CASES: dict[str, Case] = {
    "same, even kernel": (
        lambda x, q, a: a(x),
        (lambda: nn.Conv2d(3, 4, 4, padding="same"),),
        PICTURE,
    ),
    "same, even on one side": (
        lambda x, q, a: torch.relu(a(x)),
        (lambda: nn.Conv2d(3, 4, (4, 3), padding="same", dilation=(1, 2)),),
        PICTURE,
    ),
    "padding": (lambda x, q, a: a(F.pad(x, (0, 1, 0, 1))), (lambda: nn.Conv2d(3, 4, 3),), PICTURE),
    "padding, pooling": (
        lambda x, q, a: a(F.max_pool2d(F.pad(x, (1, 1, 1, 1), value=1.0), 2)),
        (lambda: nn.Conv2d(3, 4, 3),),
        PICTURE,
    ),
    "padding, two layers": (
        lambda x, q, a, b: b(a(F.pad(x, (0, 1, 0, 1)))),
        (lambda: nn.Conv2d(3, 4, 3), lambda: nn.Conv2d(4, 4, 3)),
        PICTURE,
    ),
    "padding, rows": (lambda x, q, a: a(F.pad(x, (0, 2))), (linear,), (4, 30)),
    "a transposed one of one channel": (
        lambda x, q, a: a(x),
        (lambda: nn.ConvTranspose2d(1, 4, 3),),
        (1, 1, 8, 8),
    ),
    "a learned query": (lambda x, q, a, b: a(x) + b(q), (linear, linear), ROWS),
    "a computed query, relu": (
        lambda x, q, a, b: a(x) + torch.relu(b(torch.sin(q) * 2)),
        (linear, linear),
        ROWS,
    ),
    "queries that are expanded": (
        lambda x, q, a, b: a(x) + b(q[:1].expand(x.shape[0], -1)),
        (linear, linear),
        ROWS,
    ),
    "a query alone": (lambda x, q, a: x + a(q), (linear,), ROWS),
    "a convolution of a query": (
        lambda x, q, a: x + a(q.view(1, 2, 8, 8)),
        (lambda: nn.Conv2d(2, 2, 1),),
        (1, 2, 8, 8),
    ),
    "a query beside the input": (lambda x, q, a: a(torch.cat([q, x])), (linear,), ROWS),
    "a weight of the input": (lambda x, q: F.linear(x, x * 2), (), (8, 8)),
    "a convolution's weight of the input": (
        lambda x, q: F.conv2d(x, x.view(2, 2, 4, 4)),
        (),
        (1, 2, 8, 4),
    ),
    "a computed weight": (lambda x, q: F.linear(x, q * 2), (), ROWS),
}


class Beside(nn.Module):
    """All cases in one program, as each lowering takes seconds."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cases = nn.ModuleList(
            Layers(function, *(make() for make in made)) for function, made, _ in CASES.values()
        )

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """One input for each."""
        return tuple(case(x) for case, x in zip(self.cases, inputs, strict=True))


@pytest.mark.parametrize(
    "recipe", [DYNAMIC, "int8_static_per_channel", "int8_dynamic_act_int4_weight"]
)
@pytest.mark.few(1)
def test_they_run(recipe: str, tmp_path: Path) -> None:
    net = Beside().eval()
    inputs = tuple(torch.randn(shape) for _, _, shape in CASES.values())
    manager = run(ModelSpec({"forward": Method(net, inputs)}), xnnpack(recipe))
    got = outputs(manager, tmp_path, "forward", *inputs)
    with torch.no_grad():
        expected = net(*inputs)
    ratios = {n: sqnr_db(g, e) for n, g, e in zip(CASES, got, expected, strict=True)}
    assert {name: ratio for name, ratio in ratios.items() if ratio < 20} == {}


@pytest.mark.parametrize("recipe", ["fp32", DYNAMIC])
def test_the_gelu_of_a_tanh(recipe: str, tmp_path: Path) -> None:
    """XNNPACK computes the exact one, which is 5e-4 away: noise only beside that of 8 bits."""
    net = nn.Sequential(nn.Linear(32, 32), nn.GELU(approximate="tanh"), nn.Linear(32, 32)).eval()
    direct = nn.GELU(approximate="tanh")
    for module, inputs in ((net, torch.randn(4, 32)), (direct, torch.linspace(-4, 4, 64)[None])):
        spec = ModelSpec({"forward": Method(module, (inputs,))})
        manager = run(spec, xnnpack(recipe))
        called = {o.name for o in manager.executorch_program.execution_plan[0].operators}
        assert called == set()
        (got,) = outputs(manager, tmp_path, "forward", inputs)
        limit = 1e-5 if recipe == "fp32" or module is direct else 0.1
        torch.testing.assert_close(got, module(inputs).detach(), atol=limit, rtol=0)
