"""Small networks of several kinds, for benchmarks."""

from __future__ import annotations

import torch
from etbuild import ModelContext
from torch import nn


def make(kind: str, width: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A network and its example inputs.

    Args:
      kind: "mlp", "conv" or "attention".
      width: features or channels; a multiple of 32.
    """
    torch.manual_seed(width)
    if kind == "conv":
        net: nn.Module = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2), nn.ReLU(), nn.Conv2d(width, 8, 3), nn.Hardtanh()
        )
        return net.eval(), (torch.randn(1, 3, 32, 32),)
    if kind == "attention":
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, dropout=0.0)
        return layer.eval(), (torch.randn(1, 16, width),)
    net = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
    return net.eval(), (torch.randn(1, width),)


def build(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The entry point of the `et_model`s; args: kind, width."""
    return make(ctx.arg("kind"), int(ctx.arg("width")))
