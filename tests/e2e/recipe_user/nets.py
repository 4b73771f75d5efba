"""A net with a layer for each of the recipes."""

from __future__ import annotations

import torch
from etbuild import Method, ModelContext, ModelSpec


class Net(torch.nn.Module):
    """Two linear layers, with a dropout and a doubling in between."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(64, 128)
        self.dropout = torch.nn.Dropout(0.5)
        self.last = torch.nn.Linear(128, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.dropout(torch.relu(self.first(x)))
        return self.last(x + x)


def build(ctx: ModelContext) -> ModelSpec:
    """The net, (2, 64) to (2, 16)."""
    torch.manual_seed(1)
    return ModelSpec({"forward": Method(Net().eval(), (torch.randn(2, 64),))})
