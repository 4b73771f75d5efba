"""Small nets that every backend is tried on."""

from __future__ import annotations

import torch
from etbuild import Method, ModelContext, ModelSpec


class Conv(torch.nn.Module):
    """A classifier of small pictures: convolutions, a depthwise one, pooling, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1),
            torch.nn.BatchNorm2d(16),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(16, 16, 3, padding=1, groups=16),
            torch.nn.ReLU6(),
            torch.nn.Conv2d(16, 32, 1),
            torch.nn.ReLU(),
            torch.nn.AvgPool2d(8),
        )
        self.classify = torch.nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(x).flatten(1))


def conv(ctx: ModelContext) -> ModelSpec:
    """The classifier, (1, 3, 16, 16) to (1, 10)."""
    torch.manual_seed(0)
    net = Conv().eval()
    pictures = [(torch.randn(1, 3, 16, 16),) for _ in range(8)]
    return ModelSpec({"forward": Method(net, pictures[0])}, calibration=lambda: iter(pictures))


def mlp(ctx: ModelContext) -> ModelSpec:
    """Three linear layers, (4, 64) to (4, 32)."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 32),
    ).eval()
    rows = [(torch.randn(4, 64),) for _ in range(8)]
    return ModelSpec({"forward": Method(net, rows[0])}, calibration=lambda: iter(rows))


def mlp_methods(ctx: ModelContext) -> ModelSpec:
    """The three linear layers for four rows and for one: two methods with the same weights."""
    methods = mlp(ctx).methods
    net = methods["forward"].module
    sizes = {"rows_4": 4, "rows_1": 1}
    return ModelSpec({name: Method(net, (torch.randn(size, 64),)) for name, size in sizes.items()})
