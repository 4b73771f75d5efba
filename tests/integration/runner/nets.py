"""Small networks that the runner's tests run."""

from __future__ import annotations

import torch
from etbuild import Method, ModelContext, ModelSpec
from torch import nn


class Mlp(nn.Module):
    """Two linears, whose weights programs can keep apart."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(16, 32)
        self.second = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class Scaled(nn.Module):
    """A linear whose quantized integers don't depend on a factor, which is all in the scales."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(64, 64, bias=False)
        with torch.no_grad():
            self.linear.weight.mul_(factor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


class Types(nn.Module):
    """Returns its inputs of several dtypes, each changed a bit."""

    def __init__(self) -> None:
        super().__init__()
        self.addend = nn.Parameter(torch.tensor([0.5, 1.5, 2.5]))

    def forward(
        self, f: torch.Tensor, d: torch.Tensor, i: torch.Tensor, n: torch.Tensor, b: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return f + self.addend, d + d, i + i, n + n, torch.logical_not(b)


class ChannelsLast(nn.Module):
    """Takes and returns tensors whose dimensions are not in row-major order."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.abs(x), self.weight + self.weight


def mlp(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Entry point."""
    return Mlp().eval(), (torch.randn(2, 16),)


def scaled_2(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Entry point."""
    return Scaled(2.0).eval(), (torch.randn(1, 64),)


def scaled_4(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Entry point."""
    return Scaled(4.0).eval(), (torch.randn(1, 64),)


def types(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Entry point."""
    inputs = (
        torch.ones(3),
        torch.ones(2, 2, dtype=torch.float64),
        torch.ones(4, dtype=torch.int32),
        torch.ones(1, 5, dtype=torch.int64),
        torch.ones(3, dtype=torch.bool),
    )
    return Types().eval(), inputs


def channels_last(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Entry point."""
    return ChannelsLast().eval(), (torch.randn(1, 3, 4, 5).to(memory_format=torch.channels_last),)


def methods(ctx: ModelContext) -> ModelSpec:
    """Entry point of a program with several methods, and none called forward."""
    net = Mlp().eval()
    batch = torch.export.Dim("batch", min=1, max=4)
    return ModelSpec(
        methods={
            "one": Method(net, (torch.randn(1, 16),)),
            "batch": Method(net, (torch.randn(3, 16),), dynamic_shapes={"x": {0: batch}}),
        }
    )


class Echo(nn.Module):
    """Returns what a text became."""

    def forward(
        self, tokens: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(1, count) each, to the same."""
        return tokens + 0, mask + 0, segments + 0


def echo(ctx: ModelContext) -> ModelSpec:
    """Entry point of a program with an encoder's inputs."""
    count = {1: torch.export.Dim("count", min=1, max=16)}
    inputs = tuple(torch.ones(1, 8, dtype=torch.int64) for _ in range(3))
    shapes = dict.fromkeys(("tokens", "mask", "segments"), count)
    return ModelSpec(methods={"forward": Method(Echo().eval(), inputs, dynamic_shapes=shapes)})


class Twins(torch.nn.Module):
    """Two layers whose 8-bit weights are equal, with different scales; biases of zeros."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
        with torch.no_grad():
            self.second.weight.copy_(2 * self.first.weight)
            self.first.bias.zero_()
            self.second.bias.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(2, 64) to (2, 64)."""
        return self.second(torch.relu(self.first(x)))


def twins(ctx):
    """A program whose weights XNNPACK's cache would confuse."""
    return Twins(), (torch.linspace(-1, 1, 128).view(2, 64),)
