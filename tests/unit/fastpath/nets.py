"""Small nets whose graphs are hard for partitioning: each is a function that makes a ModelSpec."""

from __future__ import annotations

import torch
from etbuild import Method, ModelSpec
from etlower.prefixes import length, prefix
from lowerings import spec
from torch import Tensor, nn


class Diamond(nn.Module):
    """Paths that part and meet, over an operator that no backend takes."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(32, 32)
        self.right = nn.Linear(32, 32)
        self.last = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        left = torch.relu(self.left(x))
        # Not delegated: a partition with both sides would depend on itself through it.
        order = torch.asinh(torch.tanh(left))
        return self.last(left + self.right(order) * left) + order


class Outputs(nn.Module):
    """Operators with several results, some of which nobody uses, and results used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(32, 64)
        self.pool = nn.MaxPool2d(2, return_indices=True)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        first, second = self.fc(x).chunk(2, dim=-1)
        values, places = torch.topk(first, 4)
        small, where = self.pool(second.view(1, 1, -1, 32))
        return values, places, small, where, first + 1, first


class State(nn.Module):
    """Buffers that a call changes, one of them between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(16, 16)
        self.register_buffer("seen", torch.zeros(4, 16))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Tensor, place: Tensor) -> Tensor:
        y = self.fc(x)
        self.seen.index_copy_(0, place, y)
        self.count.add_(1)
        return self.fc(self.seen) + self.count


class Tied(nn.Module):
    """One weight in three places, a constant that two partitions use, a table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(24, 16)
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 16)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.rand(16), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens) * self.scale
        x = torch.asinh(torch.tanh(self.first(x))) * self.scale
        return torch.relu(self.second(x)) @ self.table.weight.T


class Choice(nn.Module):
    """Two branches, of which the input's sum chooses one."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        def yes(y: Tensor) -> Tensor:
            return torch.sigmoid(y) * y + 1

        def no(y: Tensor) -> Tensor:
            return torch.tanh(y) - y

        return torch.cond(x.sum() > 0, yes, no, (self.fc(x),))


class Attention(nn.Module):
    """Two layers of attention over as many tokens as come."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.layers = nn.ModuleList(
            nn.ModuleDict({n: nn.Linear(32, 32) for n in ("q", "k", "v", "o")}) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            y = self.norm(x)
            q, k, v = (layer[n](y).unflatten(-1, (4, 8)).transpose(1, 2) for n in ("q", "k", "v"))
            y = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + layer["o"](y.transpose(1, 2).flatten(2))
        return x


class Prefix(nn.Module):
    """Reads as many rows of each head's cache as have tokens: a size that follows from a value."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(32, 32)
        self.register_buffer("cache", torch.zeros(2, 16, 16))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        rows = length(position + x.shape[0], 16)
        keys, queries = (y.view(-1, 2, 16).permute(1, 0, 2) for y in (self.fc(x), x))
        self.cache.index_copy_(1, torch.arange(x.shape[0]) + position, keys)
        scores = [
            torch.bmm(query, prefix(self.cache, rows, head).permute(0, 2, 1))
            for head, query in enumerate(queries.split(1))
        ]
        return torch.cat(scores).softmax(-1)


class Picture(nn.Module):
    """Convolutions with a normalization to fold, a padding, and a resize."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.line = nn.Conv1d(8, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.hardtanh(self.norm(self.conv(x)))
        x = nn.functional.pad(nn.functional.interpolate(x, scale_factor=2, mode="bilinear"), (1, 1))
        return self.line(x.flatten(2)).mean(-1)


class Preactivated(nn.Module):
    """Normalizes before it convolves: nothing can fold this normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(nn.functional.relu(self.norm(x)))


def diamond() -> ModelSpec:
    return spec(Diamond(), torch.randn(4, 32))


def outputs() -> ModelSpec:
    return spec(Outputs(), torch.randn(4, 32))


def state() -> ModelSpec:
    return spec(State(), torch.randn(1, 16), torch.tensor([2]))


def tied() -> ModelSpec:
    return spec(Tied(), torch.tensor([[1, 2, 3]]))


def choice() -> ModelSpec:
    return spec(Choice(), torch.randn(2, 8))


def attention() -> ModelSpec:
    tokens = torch.export.Dim("tokens", min=2, max=16)
    return spec(Attention(), torch.randn(1, 5, 32), dynamic_shapes=({1: tokens},))


def rows() -> ModelSpec:
    tokens = torch.export.Dim("tokens", min=1, max=8)
    inputs = torch.randn(3, 32), torch.tensor([0])
    return spec(Prefix(), *inputs, dynamic_shapes=({0: tokens}, {}), strict=False)


def dropouts() -> ModelSpec:
    """Layers that return their input when they are not trained, one of them the net's."""
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Tanh(), nn.AlphaDropout(0.5))
    return spec(net, torch.randn(2, 8))


def picture() -> ModelSpec:
    return spec(Picture(), torch.randn(1, 3, 8, 8))


def methods() -> ModelSpec:
    """Two methods with the same weights, one of many tokens and one of a single one."""
    net = Attention().eval()
    many = torch.export.Dim("many", min=2, max=16)
    return ModelSpec(
        {
            "prefill": Method(net, (torch.randn(1, 5, 32),), ({1: many},)),
            "decode": Method(net, (torch.randn(1, 1, 32),)),
        }
    )


def preactivated() -> ModelSpec:
    return spec(Preactivated(), torch.randn(1, 3, 6, 6))


ALL = (diamond, outputs, state, tied, choice, attention, picture, methods)
