"""A small net, and a task that adapts it."""

from __future__ import annotations

import torch
from etbuild import Method, ModelContext, ModelSpec
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

WIDTH = 1024
LAYERS = 4


class Weight(nn.Module):
    """One weight, under a name of its own."""

    def __init__(self, value: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(value)


class Adapted(nn.Linear):
    """A linear layer of the base with a low-rank change of the task."""

    def __init__(self, base: nn.Linear, adapter: dict[str, torch.Tensor]) -> None:
        super().__init__(WIDTH, WIDTH, bias=False)
        self.weight = base.weight
        self.lora_a, self.lora_b = Weight(adapter["lora_a"]), Weight(adapter["lora_b"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The base's output and the task's change of it."""
        change = functional.linear(functional.linear(x, self.lora_a.weight), self.lora_b.weight)
        return super().forward(x) + change


def _layers() -> list[nn.Linear]:
    torch.manual_seed(0)
    return [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]


def _spec(layers: list[nn.Module]) -> ModelSpec:
    net = nn.Sequential(*layers).eval()
    return ModelSpec({"forward": Method(net, (torch.ones(1, WIDTH),))})


def base(ctx: ModelContext) -> ModelSpec:
    """The base alone."""
    return _spec(list(_layers()))


def task(ctx: ModelContext) -> ModelSpec:
    """The base with an adapter of its last layer."""
    *first, last = _layers()
    adapter = load_file(ctx.file("adapter.safetensors"))
    return _spec([*first, Adapted(last, adapter)])
