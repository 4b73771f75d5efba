"""Nets whose programs older runtimes run, and one that they cannot."""

from __future__ import annotations

import torch
from etbuild import Method, ModelContext, ModelSpec


class Choice(torch.nn.Module):
    """A branch on whether a row is not the first: `executorch_prim::sym_not`, which 1.3.1 lacks."""

    def forward(self, x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        number = row.item()
        torch._check(number >= 0)
        torch._check(number < x.shape[0])
        return torch.cond(torch.sym_not(number == 0), torch.sin, torch.cos, (x,))


def choice(ctx: ModelContext) -> ModelSpec:
    """The branch, for four rows of eight."""
    return ModelSpec({"forward": Method(Choice(), (torch.randn(4, 8), torch.tensor(1)))})
