"""A net whose weights are in files of unusual names."""

from __future__ import annotations

import torch
from etbuild import ModelContext

X = torch.ones(2)


class Net(torch.nn.Module):
    """Adds the contents of each file."""

    def __init__(self, numbers: list[float], options: dict[str, str]) -> None:
        super().__init__()
        self.numbers = torch.nn.Parameter(torch.tensor([sum(numbers), float(len(options))]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.numbers


def build(ctx: ModelContext) -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """Reads all files that `args` lists by number."""
    files = [ctx.args[key] for key in sorted(ctx.args)]
    return Net([float(ctx.file(file).read_text()) for file in files], ctx.args).eval(), (X,)
