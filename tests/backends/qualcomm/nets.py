"""Nets of kinds that the table's nets lack, and what QNN refuses."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from etbuild import Method, ModelContext, ModelSpec
from torch import nn


class Mobile(nn.Module):
    """Depthwise convolutions with strides and dilation, hard swish, squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(16, 16, 5, padding=4, dilation=2, groups=16)
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1)
        )
        self.point = nn.Conv2d(16, 24, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.hardswish(self.depthwise(self.stem(x)))
        x = x * nn.functional.hardsigmoid(self.squeeze(x))
        return self.point(x).mean((2, 3))


class Upscale(nn.Module):
    """Transposed convolutions and a bilinear resize."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1)
        self.odd = nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.odd(nn.functional.leaky_relu(self.up(x)))
        return nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")


class Attention(nn.Module):
    """A transformer's block: attention with a mask, layer norms, GELU."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.norms[0](x)).view(split).permute(2, 0, 3, 1, 4).unbind(0)
        made = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.out(made.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Recurrent(nn.Module):
    """An LSTM over a short sequence, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 24, batch_first=True)
        self.head = nn.Linear(24, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


class Pooled(nn.Module):
    """An adaptive pooling whose windows have different sizes, which QNN doesn't have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.adaptive_avg_pool2d(torch.relu(x), (3, 5))


class Ranges(nn.Module):
    """Functions of floats whose steps leave the range of 16-bit floats, and of places."""

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(n, channels, length) of numbers up to 300, and n places of a channel."""
        rows, bounded = x.mean(-1), torch.clamp(x / 100, -1, 1)
        volume = torch.stack([x, x.flip(1)], 1).unsqueeze(0)
        return (
            torch.logsumexp(x, -1),
            F.log_softmax(x, -1),
            F.cross_entropy(rows / 100, places),
            F.softplus(x),
            F.mish(x),
            F.logsigmoid(x),
            torch.exp(-x.abs()),
            2.0 ** (-x.abs()),
            torch.erfc(x / 100),
            F.normalize(x, dim=-1),
            F.cosine_similarity(x, x.flip(1), -1),
            torch.cdist(x, x.flip(1)),
            torch.acos(bounded),
            torch.atan2(x, rows.unsqueeze(-1)),
            torch.asinh(x),
            F.group_norm(x, 2),
            F.instance_norm(x.unsqueeze(-1) * 1e-5),
            torch.cummax(x, 1)[0],
            F.unfold(x.unsqueeze(0), (2, 3)),
            F.max_pool3d(volume, 2, return_indices=True)[1].float(),
            (volume > -1).all(0).float(),
            torch.remainder(x, 7.0),
        )


def _spec(net: nn.Module, *shape: int) -> ModelSpec:
    inputs = [(torch.randn(shape),) for _ in range(8)]
    return ModelSpec({"forward": Method(net.eval(), inputs[0])}, calibration=lambda: iter(inputs))


def _entry(make: Callable[[], nn.Module], *shape: int) -> Callable[[ModelContext], ModelSpec]:
    def entry(ctx: ModelContext) -> ModelSpec:
        torch.manual_seed(0)
        return _spec(make(), *shape)

    return entry


mobile = _entry(Mobile, 1, 3, 32, 32)
upscale = _entry(Upscale, 1, 8, 8, 8)
attention = _entry(Attention, 1, 16, 64)
recurrent = _entry(Recurrent, 1, 8, 16)
pooled = _entry(Pooled, 1, 4, 8, 8)
curved = _entry(lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)), 1, 8)


def methods(ctx: ModelContext) -> ModelSpec:
    """A block for sixteen tokens and for one: two methods with the same weights."""
    torch.manual_seed(0)
    net = Attention().eval()

    inputs = {
        name: [(torch.randn(1, length, 64),) for _ in range(8)]
        for name, length in {"prefill": 16, "decode": 1}.items()
    }
    return ModelSpec(
        {name: Method(net, given[0]) for name, given in inputs.items()},
        calibration=lambda: inputs,
    )


def unlike(ctx: ModelContext) -> ModelSpec:
    """Two methods of which one has an operator between its layers that QNN doesn't get."""
    torch.manual_seed(0)
    first, last = nn.Linear(16, 16), nn.Linear(16, 8)

    class Parts(nn.Module):
        def __init__(self, sorts: bool) -> None:
            super().__init__()
            self.first, self.last, self.sorts = first, last, sorts

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            return self.last(torch.sort(x)[0] if self.sorts else x)

    sample = (torch.randn(4, 16),)
    return ModelSpec({n: Method(Parts(n == "sorted").eval(), sample) for n in ("plain", "sorted")})


def ranges(ctx: ModelContext) -> ModelSpec:
    """Functions whose steps leave 16-bit floats, of numbers up to 300."""
    torch.manual_seed(0)
    inputs = (torch.randn(3, 6, 10) * 100, torch.tensor([1, 5, 0]))
    return ModelSpec({"forward": Method(Ranges().eval(), inputs)})


class Rows(nn.Module):
    """A linear layer, times the number of its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        return self.layer(x) * torch.sym_sum((rows, rows, rows))


def dynamic(ctx: ModelContext) -> ModelSpec:
    """A net for any number of rows."""
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=1, max=64)
    method = Method(Rows().eval(), (torch.randn(4, 16),), dynamic_shapes=({0: rows},))
    return ModelSpec({"forward": method})
