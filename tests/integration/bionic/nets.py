"""Networks whose programs Android's runtime runs."""

from __future__ import annotations

import torch
from etbuild import Method, ModelContext, ModelSpec
from torch import nn


class Base(nn.Module):
    """Two linear layers, the base of the tasks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(64, 128)
        self.second = nn.Linear(128, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 64) to (n, 32)."""
        return self.second(torch.relu(self.first(x)))


class Task(Base):
    """The base's weights, and its own."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 64) to (n, 32)."""
        return self.own(torch.relu(super().forward(x)))


class Picture(nn.Module):
    """Convolutions, pooling and a normalization that is folded into them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.normal = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, stride=2)
        self.last = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 3, 16, 16) to (1, 4)."""
        x = torch.relu(self.normal(self.first(x)))
        x = torch.relu(self.second(x)).mean((2, 3))
        return torch.softmax(self.last(x), -1)


NETS = {"base": Base, "picture": Picture, "task": Task}


def example(net: str, number: int = 0) -> torch.Tensor:
    """An input of a net."""
    generator = torch.Generator().manual_seed(number)
    shape = (1, 3, 16, 16) if net == "picture" else (2, 64)
    return torch.randn(shape, generator=generator)


def build(ctx: ModelContext) -> ModelSpec:
    """Entry point; args["net"] names the network."""
    net = ctx.args["net"]
    return ModelSpec(
        methods={"forward": Method(NETS[net]().eval(), (example(net),))},
        calibration=lambda: [(example(net, number),) for number in range(1, 9)],
    )


class Warp(nn.Module):
    """Moves the points of a picture."""

    def forward(self, picture: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        """(1, 3, 8, 8) and (1, 8, 8, 2) to (1, 3, 8, 8)."""
        return nn.functional.grid_sample(picture, grid, padding_mode="border", align_corners=True)


class Warped(nn.Module):
    """A convolution, and a layer that moves its points."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first = nn.Conv2d(3, 3, 1)
        self.warp = Warp()

    def forward(self, picture: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        """As `Warp`."""
        return self.warp(self.first(picture), grid)


def warp(ctx: ModelContext) -> ModelSpec:
    """Entry point: a net that Vulkan's older runtimes have no operator for."""
    inputs = (torch.zeros(1, 3, 8, 8), torch.zeros(1, 8, 8, 2))
    return ModelSpec(methods={"forward": Method(Warped().eval(), inputs)})
