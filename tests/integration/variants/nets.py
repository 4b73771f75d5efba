"""A foundation whose weights two programs share."""

from __future__ import annotations

import torch
from etbuild import ModelContext


def foundation(ctx: ModelContext) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Two layers, 0.8 MB, of the seed that the model names: (1, 64) to (1, 100)."""
    torch.manual_seed(int(ctx.arg("seed")))
    layers = (torch.nn.Linear(64, 1280), torch.nn.ReLU(), torch.nn.Linear(1280, 100))
    return torch.nn.Sequential(*layers), (torch.randn(1, 64),)
