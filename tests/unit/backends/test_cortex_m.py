"""Layers that CMSIS-NN has no kernel for run on Cortex-M in other forms, or by other kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cortex_m_emulator
import cortex_m_recipes
import pytest
import torch
from etbuild import BuildError, Method, ModelSpec, Options, RecipeContext
from etlower import stages
from etlower.progress import Progress
from torch import nn
from torch.nn import functional as F


class Joined(nn.Module):
    """An activation behind a layer, whose result shares a scale with what it is joined with."""

    def __init__(self, activation: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.activation, self.layer = activation, nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.activation(self.layer(x)), x], 1)


class Forked(nn.Module):
    """A hard swish of what is read elsewhere, too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        return x + F.hardswish(x)


class Chosen(nn.Module):
    """Numbers that comparisons choose, or are multiplied with: equal where a step more decides."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return torch.where(y > 0.2, y, 0.2) + (x > 0) * x


class Applied(nn.Module):
    """A function of a tensor."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Maxima(nn.Module):
    """Maxima over windows, which are written at their places, and some over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(8, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        y, places = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(y, places, 2).sum((2, 3)) + x.max(1)[0].mean()


def summed(x: torch.Tensor) -> torch.Tensor:
    """Adds two channels to one."""
    return x[0].index_put((torch.tensor([1, 1]),), x[0, :2] + 1, True)


def filled(x: torch.Tensor) -> torch.Tensor:
    written = x.clone()
    written[:, 0].fill_(-0.4)
    return written.flip(2)


PICTURE, ROW = (1, 8, 6, 6), (1, 8, 9)
NETS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "transposed over a row": (nn.ConvTranspose1d(8, 4, 4, stride=2, padding=1), ROW),
    "transposed in groups": (nn.ConvTranspose2d(8, 8, 3, groups=2), PICTURE),
    "transposed depthwise": (nn.ConvTranspose2d(32, 32, 3, groups=32), (1, 32, 5, 5)),
    "output padding": (nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1), PICTURE),
    "dilated": (nn.ConvTranspose2d(8, 4, 3, dilation=2, bias=False), PICTURE),
    "transposed without a batch": (nn.ConvTranspose2d(8, 4, 3), (8, 6, 6)),
    "three dimensions": (nn.Conv3d(2, 3, 3), (1, 2, 5, 5, 5)),
    "maximum of cut-off windows": (
        nn.Sequential(nn.Conv2d(8, 8, 1), nn.MaxPool2d(4, ceil_mode=True)),
        PICTURE,
    ),
    "maxima with their places": (Maxima(), PICTURE),
    "ReLU": (Joined(F.relu), PICTURE),
    "ReLU6": (Joined(F.relu6), PICTURE),
    "hard sigmoid": (Joined(F.hardsigmoid), PICTURE),
    "bounds": (Joined(lambda x: x.clamp(-0.2, 0.3)), PICTURE),
    "hard swish alone": (nn.Hardswish(), PICTURE),
    "hard swish of two": (Forked(), PICTURE),
    "comparisons": (Chosen(), PICTURE),
    "bounds behind a table": (Applied(lambda x: x.abs().sqrt().clamp(-0.3, 1.1)), PICTURE),
    "a number written into": (Applied(filled), PICTURE),
    "sums by place": (Applied(summed), PICTURE),
    "a fixed scale beside another": (
        Applied(lambda x: torch.cat([x.softmax(-1).flatten(), (x * 9).flatten()])),
        PICTURE,
    ),
    "bounds by default": (Applied(lambda x: F.hardtanh(x * 3, inplace=True) + 1), PICTURE),
    "channels that lie last": (Applied(lambda x: F.avg_pool2d(x, 2)), PICTURE),
    "channels put last": (
        Applied(lambda x: F.max_pool2d(x.to(memory_format=torch.channels_last), 2)),
        PICTURE,
    ),
    "padding of five dimensions": (
        Applied(lambda x: F.pad(x.unsqueeze(2) * 2, (1, 0, 0, 1), value=0.5)),
        PICTURE,
    ),
    "negative padding": (Applied(lambda x: F.pad(x, (-1, 3)) - 1), PICTURE),
}


class Together(nn.Module):
    """Nets beside each other in one program."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(net for net, _ in NETS.values())

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(net(x) for net, x in zip(self.nets, inputs, strict=True))


def _numbers(name: str) -> torch.Tensor:
    numbers = torch.randn(NETS[name][1])
    return numbers.to(memory_format=torch.channels_last) if "that lie last" in name else numbers


@pytest.fixture(scope="module")
def results() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Results of the kernels' references and of the eager model, by name of a net."""
    torch.manual_seed(0)
    net = Together().eval()
    inputs = [tuple(_numbers(name) for name in NETS) for _ in range(4)]
    spec = ModelSpec({"forward": Method(net, inputs[0])}, calibration=lambda: iter(inputs))
    got: list[torch.Tensor] = []
    cortex_m_emulator.install()

    def run(edge: Any) -> None:
        got.extend(edge.exported_program("forward").module(check_guards=False)(*inputs[0]))

    recipe = cortex_m_recipes.int8(RecipeContext(Options({}, "//:r"), "//:r"))
    watch = stages.Watch(lowered=run)
    stages.run(spec, recipe, Progress(), "//:net", etrecord=False, watch=watch)
    with torch.no_grad():
        expected = net(*inputs[0])
    return {name: pair for name, *pair in zip(NETS, got, expected, strict=True)}


@pytest.mark.parametrize("name", NETS)
def test_the_same_numbers(name: str, results: Any) -> None:
    got, expected = results[name]
    noise = (got - expected).square().sum()
    assert 10 * torch.log10(expected.square().sum() / noise) > 25


def test_a_quantizer_that_fails() -> None:
    """The message has the call that upstream's quantizer looked at, and its error."""
    spec = ModelSpec({"forward": Method(nn.Softmax(0).eval(), (torch.tensor(0.5),))})
    recipe = cortex_m_recipes.int8(RecipeContext(Options({}, "//:r"), "//:r"))
    with pytest.raises(BuildError) as raised:
        stages.run(spec, recipe, Progress(), "//:net", etrecord=False)
    text = str(raised.value)
    assert "upstream's quantizer fails on aten.softmax.int" in text
    assert "with float32 []: ZeroDivisionError: integer modulo by zero (executorch/" in text
