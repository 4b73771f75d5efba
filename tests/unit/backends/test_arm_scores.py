"""Scales of scores that a mask hides from a softmax end below those that count."""

from __future__ import annotations

from collections.abc import Callable

import arm_recipes
import pytest
import torch
from etbuild import Options, RecipeContext
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

HIDE = torch.full((6, 6), -torch.inf).triu(1)
BIAS = HIDE + torch.arange(6) * 0.2


class Net(torch.nn.Module):
    def __init__(self, masked: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layer, self.masked = torch.nn.Linear(8, 6), masked

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.masked(self.layer(x)).softmax(-1)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "masked",
    [
        lambda x: x + HIDE,
        lambda x: x + BIAS,
        lambda x: x.masked_fill(HIDE < 0, -torch.inf),
        lambda x: torch.where(HIDE < 0, -torch.inf, x * 2),
    ],
)
def test_scores_keep_steps_of_their_own(masked: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """With -256 beside them, scores would have steps of 1."""
    torch.manual_seed(0)
    net = Net(masked).eval()
    samples = [torch.randn(1, 6, 8) for _ in range(8)]
    quantization = arm_recipes.tosa_int8(
        RecipeContext(Options({}, "//:r"), "//:r")
    ).quantization_recipe
    graph = torch.export.export(net, (samples[0],)).module(check_guards=False)
    for change in quantization.pre_prepare_passes:
        graph = change(graph)
    prepared = prepare_pt2e(graph, quantization.quantizers[0])
    for sample in samples:
        prepared(sample)
    got, expected = convert_pt2e(prepared)(samples[0]), net(samples[0])
    assert (got - expected).abs().max() < 0.05
    assert got[0].triu(1).abs().max() == 0
