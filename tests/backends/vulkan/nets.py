"""Nets with what Vulkan's backend computes by shaders of its own, and what it must not get."""

from __future__ import annotations

from collections.abc import Callable

import torch
from etbuild import Method, ModelContext, ModelSpec
from torch import nn


class Attention(nn.Module):
    """Torch's attention, whose decomposition has operators that no Vulkan runtime has."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, n, 64) to the same."""
        n = x.shape[1]
        q, k, v = self.qkv(self.norm(x)).view(1, n, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
        attended = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(attended.transpose(1, 2).reshape(1, n, 64))


class Recurrent(nn.Module):
    """An LSTM and a linear layer of odd sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(16, 32, batch_first=True), nn.Linear(32, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 6, 16) to (1, 7)."""
        return self.out(self.lstm(x)[0][:, -1])


class Lookup(nn.Module):
    """An embedding and a linear layer."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(rows, 32), nn.Linear(32, 8)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """(1, n) to (1, n, 8)."""
        return self.out(self.table(numbers))


def _lookup(rows: int) -> dict[str, Method]:
    return {"forward": Method(Lookup(rows), (torch.tensor([[0, 1, rows // 2, rows - 1]]),))}


def _attention() -> dict[str, Method]:
    return {"forward": Method(Attention(), (torch.randn(1, 16, 64),))}


def _recurrent() -> dict[str, Method]:
    return {"forward": Method(Recurrent(), (torch.randn(1, 6, 16),))}


def _pictures() -> dict[str, Method]:
    """Depthwise and transposed convolutions."""
    net = nn.Sequential(
        nn.Conv2d(8, 8, 3, groups=8, padding=1),
        nn.ReLU6(),
        nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1),
        nn.Sigmoid(),
    )
    return {"forward": Method(net, (torch.randn(1, 8, 12, 12),))}


def _odd() -> dict[str, Method]:
    """Sizes that are no multiples of 4, in two methods."""
    net = nn.Sequential(nn.Linear(30, 10), nn.ReLU(), nn.Linear(10, 7))
    return {f"rows_{n}": Method(net, (torch.randn(n, 30),)) for n in (1, 3)}


def _batches() -> dict[str, Method]:
    """A dynamic number of rows."""
    net = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 32))
    shapes = ({0: torch.export.Dim("rows", min=1, max=8)},)
    others = [(torch.randn(n, 32),) for n in (1, 8)]
    return {"forward": Method(net, (torch.randn(4, 32),), shapes, test_inputs=others)}


class Newer(nn.Module):
    """Operators that the runtime of ExecuTorch 1.3.1 lacks, between layers that it has."""

    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        """(1, 4, 8, 8) and (1, 6, 6, 2) to (1, 4, 6, 6)."""
        x = nn.functional.grid_sample(torch.relu(x), grid, align_corners=False) + 1.5
        either = torch.logical_or(x > 2, x < 1.25) | (x == 1.5) | (x != x)
        log = torch.log10(x.abs() + 1)
        return torch.where(either, x, log) * torch.where((x >= 1) & (x <= 3), 0.5, 2.0)


def _newer() -> dict[str, Method]:
    grid = torch.rand(1, 6, 6, 2) * 2 - 1
    return {"forward": Method(Newer(), (torch.randn(1, 4, 8, 8), grid))}


NETS: dict[str, Callable[[], dict[str, Method]]] = {
    "attention": _attention,
    "batches": _batches,
    "embedding_16384": lambda: _lookup(16384),
    "embedding_20000": lambda: _lookup(20000),
    "newer": _newer,
    "odd": _odd,
    "pictures": _pictures,
    "recurrent": _recurrent,
}


def build(ctx: ModelContext) -> ModelSpec:
    """Entry point; args["net"] names the net."""
    torch.manual_seed(0)
    methods = NETS[ctx.args["net"]]()
    for method in methods.values():
        method.module.eval()
    inputs = next(iter(methods.values())).example_inputs
    return ModelSpec(methods, calibration=lambda: iter([inputs]))
