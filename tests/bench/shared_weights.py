"""A network with 128 MiB of float32 weights, for benchmarks of memory."""

from __future__ import annotations

import torch
from etbuild import ModelContext
from torch import nn

WIDTH = 4096
LAYERS = 2


class Linears(nn.Module):
    """Linear layers with one of two activations: equal weights and unequal programs."""

    def __init__(self, end: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.end = end

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return torch.relu(x) if self.end == "relu" else torch.sigmoid(x)


def build(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The entry point; args: end."""
    return Linears(ctx.arg("end")).eval(), (torch.randn(1, WIDTH),)
