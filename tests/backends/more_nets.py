"""Nets of kinds that the table's three lack: each is tried with each recipe that runs here."""

from __future__ import annotations

from collections.abc import Callable

import torch
from etbuild import Method, ModelContext, ModelSpec
from torch import nn

_Methods = dict[str, Method]


class Gru(nn.Module):
    """A recurrent layer in both directions, and a linear one on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(12, 16, batch_first=True, bidirectional=True)
        self.classify = nn.Linear(32, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, length, 12) to (n, 6)."""
        return self.classify(self.gru(x)[0][:, -1])


class Sound(nn.Module):
    """Convolutions over time: with strides, in groups, dilated, and a pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(4, 16, 5, stride=2, padding=2),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.Conv1d(16, 16, 3, padding=2, dilation=2, groups=4),
            nn.Hardswish(),
            nn.Conv1d(16, 8, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 4, length) to (n, 8)."""
        return self.layers(x).mean(-1)


class Masked(nn.Module):
    """Torch's layer of attention with a causal mask, and a normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm = nn.LayerNorm(32)
        self.register_buffer("mask", torch.ones(12, 12, dtype=torch.bool).triu(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 12, 32) to the same."""
        attended, _ = self.attention(x, x, x, attn_mask=self.mask, need_weights=False)
        return self.norm(x + attended)


class Mobile(nn.Module):
    """Depthwise convolutions, hard swish, squeeze and excitation, a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.depthwise = nn.Conv2d(16, 16, 5, padding=4, dilation=2, groups=16)
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1)
        )
        self.point = nn.Conv2d(16, 10, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 3, height, width) to (n, 10)."""
        x = nn.functional.hardswish(self.norm(self.stem(x)))
        y = self.depthwise(x)
        return self.point(x + y * torch.sigmoid(self.squeeze(y))).mean((2, 3))


class Twice(nn.Module):
    """Layers that are called twice, on values of different ranges."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 4, 8, 8) to the same."""
        x = self.layer(0.3 * torch.relu(self.layer(x)))
        return self.out(0.3 * torch.relu(self.out(x)))


class Steps(nn.Module):
    """A gated unit by hand: each step calls its layers, and so does a softplus at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.new, self.out = nn.Linear(8, 8), nn.Linear(16, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(n, length, 8) to (n, 8), twice."""
        state = x.mean(1)
        for step in x.unbind(1):
            gate = torch.sigmoid(self.gate(step + state))
            new = torch.tanh(self.new(torch.cat([step, gate * state], -1)))
            state = torch.lerp(state, new, gate)
        return nn.functional.softplus(self.out(state)), self.out(2 * state)


class Cells(nn.Module):
    """Recurrent layers step by step, and one that projects its state."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTMCell(6, 8), nn.GRUCell(8, 8)
        self.third, self.last = nn.RNNCell(8, 8), nn.LSTM(8, 8, proj_size=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, length, 6) to (length, n, 4)."""
        h = c = g = r = x.new_zeros(x.shape[0], 8)
        states = []
        for step in x.unbind(1):
            h, c = self.first(step, (h, c))
            g = self.second(h, g)
            r = self.third(g, r)
            states.append(r)
        return self.last(torch.stack(states))[0]


class Peaks(nn.Module):
    """Extremes of rows in batches, and of all channels, a running mean, and a count of calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Conv1d(3, 16, 1), nn.Linear(16, 4)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.long))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(n, 3, length) to (n, 4), (n, length), a number and (1)."""
        y = self.layer(x)
        mean = 0.5 * self.mean + y.mean()
        self.mean.copy_(1 - mean)
        self.calls.add_(1)
        return self.out(y.max(2)[0]), y.min(1)[0], mean, self.calls + 0


class Words(nn.Module):
    """An embedding, and linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(100, 32), nn.Linear(32, 8)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """(n, length) to (n, length, 8)."""
        return self.out(torch.tanh(self.table(numbers)))


class Norms(nn.Module):
    """A normalization and two layers with a GELU, around which the input goes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.up, self.down = nn.Linear(32, 96), nn.Linear(96, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, length, 32) to the same."""
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Causal(nn.Module):
    """Attention written out, with a mask that follows from no input."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, n, 32) to the same."""
        n = x.shape[1]
        scores = self.q(x) @ self.k(x).transpose(1, 2) * 32**-0.5
        mask = torch.ones(n, n, dtype=torch.bool).triu(1)
        return scores.masked_fill(mask, float("-inf")).softmax(-1) @ self.v(x)


class Cross(nn.Module):
    """Torch's layer of attention to another sequence, whose weight is taken apart."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """(1, n, 32) and (1, m, 32) to (1, n, 32)."""
        return x + self.attention(x, memory, memory, need_weights=False)[0]


class Grouped(nn.Module):
    """Convolutions in groups: in two, and depthwise with large windows or more outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs = nn.Conv2d(8, 8, 1, groups=2)
        self.large = nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.more = nn.Conv2d(8, 16, 3, padding=1, groups=8)
        self.up = nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1, groups=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 8, n, n) to twice its size."""
        return self.up(torch.relu(self.more(self.large(torch.relu(self.pairs(x))))))


class Windows(nn.Module):
    """Attention within windows of a picture that is shifted: rolls, six dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 8, 8, 16) to the same."""
        x = torch.roll(x, (-1, -1), (1, 2))
        x = x.view(1, 4, 2, 4, 2, 16).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, 16)
        q, k, v = self.qkv(x).view(-1, 4, 3, 2, 8).permute(2, 0, 3, 1, 4)
        x = ((q * 8**-0.5) @ k.transpose(-2, -1)).softmax(-1) @ v
        x = self.out(x.transpose(1, 2).reshape(-1, 4, 16))
        return x.view(1, 4, 4, 2, 2, 16).permute(0, 1, 3, 2, 4, 5).reshape(1, 8, 8, 16)


class Averages(nn.Module):
    """Averages over windows side by side: of even sizes, cut off at the edges, adaptive."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 3, 16, 16) to (1, 156); one side is padded more, as in nets from TensorFlow."""
        x = self.layer(nn.functional.pad(x, (0, 1, 0, 1)))
        pooled = [
            nn.functional.avg_pool2d(x, 4),
            nn.functional.avg_pool2d(x, (4, 8), padding=(2, 0)),
            nn.functional.avg_pool2d(x, 6, ceil_mode=True),
            nn.functional.adaptive_avg_pool2d(x, 2),
        ]
        return torch.cat([y.flatten(1) for y in pooled], 1)


class Pooled(nn.Module):
    """Averages over windows with a padding, one without strides, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 3, 32, 32) to (n, 4)."""
        x = nn.functional.hardswish(self.layer(x))
        x = nn.functional.avg_pool2d(x, 3, stride=1, padding=1)
        return self.out(nn.functional.avg_pool2d(x, 4).mean((2, 3)))


class Styled(nn.Module):
    """Reflections at the borders, an instance normalization, and resizing."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 3, 3, padding=1)
        self.norm = nn.InstanceNorm2d(8, affine=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 3, height, width) to twice its size."""
        x = self.layer(nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"))
        x = nn.functional.interpolate(torch.relu(self.norm(x)), scale_factor=2, mode="bilinear")
        return torch.tanh(self.out(0.5 * x))


class Curves(nn.Module):
    """Activations with factors, a sum of squares, and a root mean square."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.weight = nn.Linear(16, 16), nn.Parameter(torch.ones(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 16) to (n, 48)."""
        x = self.layer(x)
        norm = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        return torch.cat([nn.functional.selu(x), nn.functional.celu(x, 0.7), norm], -1)


class Total(nn.Module):
    """State that is changed in place, and a shift register whose views are written to."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Linear(8, 8), nn.Linear(24, 4)
        self.register_buffer("total", torch.zeros(1, 8))
        self.register_buffer("past", torch.zeros(1, 3, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 8) to (1, 4)."""
        x = self.layer(x)
        self.total.mul_(0.5).add_(x)
        self.past[:, :-1] = self.past[:, 1:].clone()
        self.past[:, -1] = torch.tanh(self.total)
        return self.out(self.past.flatten(1))


class Volumes(nn.Module):
    """Maxima over windows of three dimensions, of two, and over a dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 3, 12, 12) to (1, 6)."""
        x = torch.relu(self.layer(x)).unsqueeze(2)
        x = nn.functional.max_pool3d(x, (1, 2, 2)).squeeze(2)
        x = self.out(nn.functional.adaptive_max_pool2d(x, 2).flatten(1))
        return torch.cat([x, x.max(1, keepdim=True)[0]], 1)


class Modulated(nn.Module):
    """A convolution whose weights follow from an input, and a view behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.style, self.out = nn.Linear(12, 8), nn.Conv2d(8, 3, 1)
        self.weight, self.noise = (
            nn.Parameter(torch.randn(8, 8, 3, 3)),
            nn.Parameter(torch.randn(6, 6)),
        )

    def forward(self, x: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        """(1, 8, 6, 6) and (1, 12) to (1, 3, 6, 6)."""
        weight = self.weight * (self.style(style) + 1).view(1, 8, 1, 1)
        weight = weight * torch.rsqrt(weight.square().sum((1, 2, 3)) + 1e-8).view(8, 1, 1, 1)
        x = nn.functional.conv2d(x, weight, padding=1).view(1, -1, 6, 6)
        return self.out(nn.functional.leaky_relu(x + 0.1 * self.noise, 0.2))


class Hidden(nn.Module):
    """Attention of learned queries to what a mask leaves, and the maximum of that, gated."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.out = nn.Parameter(torch.randn(3, 16)), nn.Linear(64, 6)

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        """(2, 7, 16) and (2, 7) booleans to (2, 6)."""
        scores = (self.queries @ x.mT / 4).masked_fill(~keep[:, None], float("-inf"))
        most = x.masked_fill(~keep[..., None], float("-inf")).amax(1)
        seen = scores.softmax(-1) @ x
        gated = torch.tanh(seen) * torch.sigmoid(seen)
        return self.out(torch.cat([gated.flatten(1), most], 1))


class Sorted(nn.Module):
    """Values in order beside their places, and whole numbers that are divided."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(2, 16) and (4) whole numbers to values, places, quotients and rests."""
        values, places = self.layer(x).sort(descending=True)
        return values, places, n // 3, n % 3


class Cached(nn.Module):
    """Attention to a cache, whose heads several others share."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(16, 32, bias=False), nn.Linear(16, 16, bias=False)
        self.out = nn.Linear(32, 8)
        self.register_buffer("cache", torch.zeros(1, 2, 6, 8))
        self.register_buffer("reached", torch.tril(torch.ones(6, 6, dtype=torch.bool)))

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """(1, n, 16) and (n) places to (1, n, 8)."""
        query = self.query(x).unflatten(-1, (4, 8)).transpose(1, 2)
        self.cache.index_copy_(2, places, self.key(x).unflatten(-1, (2, 8)).transpose(1, 2))
        known = self.cache.repeat_interleave(2, dim=1)
        mask = self.reached[places]
        seen = nn.functional.scaled_dot_product_attention(query, known, known, attn_mask=mask)
        return self.out(seen.transpose(1, 2).flatten(2))


class Smoothed(nn.Module):
    """A running mean, which is a result as well."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("last", torch.zeros(1, 8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(1, 8) to the same, and to the layer's."""
        y = torch.relu(self.layer(x))
        self.last.mul_(0.5).add_(y)
        return self.last.clone(), y


class Edges(nn.Module):
    """Sums of what several edges of a graph bring to a node."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Linear(8, 8), nn.Linear(8, 4)
        self.register_buffer("source", torch.tensor([0, 1, 2, 3, 1, 2, 0]))
        self.register_buffer("target", torch.tensor([1, 2, 3, 0, 0, 1, 3]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(4, 8) to (4, 4)."""
        y = torch.relu(self.layer(x))
        return self.out(torch.zeros_like(y).index_add(0, self.target, y[self.source]))


class Relative(nn.Module):
    """Scores by distance, which a padding and views shift, and a convolution with a weight norm."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.place = nn.Linear(16, 16), nn.Linear(16, 16)
        layer = nn.Conv1d(16, 8, 3, padding=1)
        self.layer = nn.utils.parametrizations.weight_norm(layer)
        self.register_buffer("places", torch.randn(1, 11, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 6, 16) to (1, 6, 8)."""
        scores = self.query(x) @ self.place(self.places).mT / 4
        shifted = nn.functional.pad(scores, (1, 0)).view(1, 12, 6)[:, 1:].view(1, 6, 11)
        return self.layer((shifted[..., :6].softmax(-1) @ x).mT).mT


class Batched(nn.Module):
    """More rows than features in two batches, by a layer that is called twice, and flat ones."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Linear(32, 32)
        self.flat = nn.Linear(640, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(2, 20, 32) to (2, 20, 32) and (2, 8)."""
        return self.rows(self.rows(x).relu()), self.flat(x.flatten(1))


class Beside(nn.Module):
    """Channels behind a ReLU beside others that reach below zero, and a product that two read."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.other = nn.Conv1d(3, 8, 1), nn.Conv1d(8, 6, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(1, 3, 20) to (1, 14, 20), (1, 20) and (1, 9, 20)."""
        y = torch.relu(self.layer(x))
        most = self.other(y).amax(2, keepdim=True).expand(-1, -1, x.shape[2])
        others = torch.cat([3 * x, x * x.flip(1), x.abs()], 1)
        return torch.cat([y, most], 1), (x * x.flip(1)).sum(1), others


class Bounded(nn.Module):
    """Bounds that lie within a scale, or far beyond what they bound, and small probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = nn.Conv2d(3, 4, 3, padding=1)
        self.row = nn.Linear(12, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, row = self.picture(x), self.row(x)
        return (
            torch.cat([nn.functional.relu6(y), x], 1),
            torch.cat([y.clamp(min=-0.1), x], 1),
            torch.cat([x, y.clamp(0, 0.5)], 1),
            nn.functional.pad(x, (1, 1), value=-6.0),
            (x * 0.3).flatten(2).softmax(-1),
            row.clamp(-100, 100),
            row.clamp(max=1000.0),
            row.exp(),
        )


class Turned(nn.Module):
    """An encoder, and a decoder with the same weight, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(24, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.encoder(x).relu(), self.encoder.weight.t())


class Several(nn.Module):
    """A picture whose edges are repeated, and a slope of zero: whole numbers and floats."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 3, 8, 8) to (1, 4, 8, 8)."""
        x = nn.functional.leaky_relu(x, 7.0).clamp(0, 7)
        return self.layer(nn.functional.pad(x, (1, 1, 1, 1), mode="replicate"))


class Tied(nn.Module):
    """Narrows rows without a batch, sorts them, and widens them by the same weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8, 3) * 0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(nn.functional.conv1d(x[None], self.weight, padding=1))
        halves = nn.functional.avg_pool1d(nn.functional.conv1d(x, self.weight), 2)
        y = nn.functional.conv1d(halves[None], self.weight, padding=3) + y[..., :9]
        y = y.sort(descending=True)[0]
        return nn.functional.conv_transpose1d(y, self.weight, stride=2, padding=1)


class Single(nn.Module):
    """A picture that is no batch: convolutions, windows, and products by a matrix and a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1, groups=8),
            nn.ConvTranspose2d(8, 6, 2, 2),
            nn.AvgPool2d(3, 2, 1),
        )
        self.rows = nn.Conv1d(6, 6, 3, padding=1)
        self.matrix = nn.Parameter(torch.randn(4, 5) * 0.4)
        self.out = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(3, 16, 16) to (6, 4, 5) and (4,)."""
        y = self.layers(x)
        means = nn.functional.adaptive_avg_pool1d(self.rows(y.flatten(1)), 1)
        return y @ self.matrix, self.out(means.squeeze(-1))


def _transposed() -> nn.Module:
    """Halves a picture and doubles it again, with a padding of the output."""
    return nn.Sequential(
        nn.Conv2d(4, 8, 3, stride=2, padding=1),
        nn.LeakyReLU(),
        nn.ConvTranspose2d(8, 8, 3, stride=2, padding=1, output_padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 2, 3, padding=1),
    )


def _shuffled() -> nn.Module:
    """Makes pixels of channels, and channels of pixels."""
    return nn.Sequential(
        nn.Conv2d(4, 16, 3, padding=1),
        nn.PixelShuffle(2),
        nn.ReLU(),
        nn.PixelUnshuffle(2),
        nn.Conv2d(16, 8, 1),
        nn.PixelShuffle(2),
    )


def _one(net: nn.Module, *shape: int) -> _Methods:
    return {"forward": Method(net, (torch.randn(shape),))}


def _cells() -> _Methods:
    """Three steps, and three others in the second call."""
    first, second = (torch.randn(2, 3, 6) for _ in range(2))
    return {"forward": Method(Cells(), (first,), test_inputs=[(second,)])}


def _sizes() -> _Methods:
    """A net for pictures of two sizes: two methods with the same weights."""
    net = Mobile()
    return {f"size_{n}": Method(net, (torch.randn(1, 3, n, n),)) for n in (16, 24)}


def _hidden() -> _Methods:
    """Two sequences, of which one is shorter."""
    keep = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    return {"forward": Method(Hidden(), (torch.randn(2, 7, 16), keep))}


def _modulated() -> _Methods:
    return {"forward": Method(Modulated(), (torch.randn(1, 8, 6, 6), torch.randn(1, 12)))}


def _tied() -> _Methods:
    """Two nets of one form, with weights of their own."""
    return {name: Method(Tied(), (torch.randn(8, 12),)) for name in ("first", "second")}


def _rows() -> _Methods:
    """Linear layers for one to eight rows."""
    net = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 16))
    shapes = ({0: torch.export.Dim("rows", min=1, max=8)},)
    others = [(torch.randn(n, 32),) for n in (1, 8)]
    return {"forward": Method(net, (torch.randn(4, 32),), shapes, test_inputs=others)}


def _lengths() -> _Methods:
    """A normalization and linear layers for sequences of two to sixteen."""
    shapes = ({1: torch.export.Dim("length", min=2, max=16)},)
    others = [(torch.randn(1, n, 32),) for n in (2, 16)]
    return {"forward": Method(Norms(), (torch.randn(1, 5, 32),), shapes, test_inputs=others)}


def _signals() -> _Methods:
    """Padded convolutions over four to sixty-four steps."""
    net = nn.Sequential(
        nn.Conv1d(4, 16, 3, padding=1), nn.SiLU(), nn.Conv1d(16, 4, 3, padding=2, dilation=2)
    )
    shapes = ({2: torch.export.Dim("length", min=4, max=64)},)
    others = [(torch.randn(1, 4, n),) for n in (4, 64)]
    return {"forward": Method(net, (torch.randn(1, 4, 20),), shapes, test_inputs=others)}


NETS: dict[str, Callable[[], _Methods]] = {
    "averages": lambda: _one(Averages(), 1, 3, 16, 16),
    "batched": lambda: _one(Batched(), 2, 20, 32),
    "beside": lambda: _one(Beside(), 1, 3, 20),
    "cached": lambda: {"forward": Method(Cached(), (torch.randn(1, 2, 16), torch.tensor([0, 1])))},
    "bounded": lambda: _one(Bounded(), 1, 3, 12, 12),
    "causal": lambda: _one(Causal(), 1, 9, 32),
    "cells": _cells,
    "cross": lambda: {"forward": Method(Cross(), (torch.randn(1, 8, 32), torch.randn(1, 5, 32)))},
    "curves": lambda: _one(Curves(), 3, 16),
    "edges": lambda: _one(Edges(), 4, 8),
    "gated": lambda: _one(
        nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16)), 4, 16, 16
    ),
    "grouped": lambda: _one(Grouped(), 1, 8, 8, 8),
    "gru": lambda: _one(Gru(), 1, 5, 12),
    "hidden": _hidden,
    "layers": lambda: _one(nn.LayerNorm(12), 2, 9, 12),
    "lengths": _lengths,
    "masked": lambda: _one(Masked(), 1, 12, 32),
    "modulated": _modulated,
    "mobile": lambda: _one(Mobile(), 1, 3, 16, 16),
    "norms": lambda: _one(Norms(), 1, 6, 32),
    "peaks": lambda: _one(Peaks(), 2, 3, 20),
    "pooled": lambda: _one(Pooled(), 1, 3, 32, 32),
    "relative": lambda: _one(Relative(), 1, 6, 16),
    "rows": _rows,
    "several": lambda: _one(Several(), 1, 3, 8, 8),
    "shuffled": lambda: _one(_shuffled(), 1, 4, 6, 6),
    "signals": _signals,
    "single": lambda: _one(Single(), 3, 16, 16),
    "sizes": _sizes,
    "smoothed": lambda: _one(Smoothed(), 1, 8),
    "sorted": lambda: {
        "forward": Method(Sorted(), (torch.randn(2, 16), torch.tensor([7, -5, 3, -3])))
    },
    "sound": lambda: _one(Sound(), 1, 4, 32),
    "steps": lambda: _one(Steps(), 2, 4, 8),
    "styled": lambda: _one(Styled(), 1, 3, 10, 10),
    "tied": _tied,
    "total": lambda: _one(Total(), 1, 8),
    "transposed": lambda: _one(_transposed(), 1, 4, 8, 8),
    "turned": lambda: _one(Turned(), 3, 24),
    "twice": lambda: _one(Twice(), 1, 4, 8, 8),
    "volumes": lambda: _one(Volumes(), 1, 3, 12, 12),
    "windows": lambda: _one(Windows(), 1, 8, 8, 16),
    "words": lambda: {"forward": Method(Words(), (torch.tensor([[0, 1, 50, 99]]),))},
}


def build(ctx: ModelContext) -> ModelSpec:
    """Entry point; args["net"] names the net."""
    torch.manual_seed(0)
    methods = NETS[ctx.args["net"]]()
    for method in methods.values():
        method.module.eval()
        # Statistics as training leaves them, not zeros and ones.
        for layer in method.module.modules():
            if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
                layer.running_mean.uniform_(-0.5, 0.5)
                layer.running_var.uniform_(0.5, 2)
    given = {
        # With the example itself, which is what runs: its values are within the calibrated range.
        name: [method.example_inputs, *(_like(method.example_inputs) for _ in range(7))]
        for name, method in methods.items()
    }
    first = next(iter(given.values()))
    return ModelSpec(methods, calibration=lambda: given if len(given) > 1 else iter(first))


def _like(inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Other inputs of the same shapes."""
    return tuple(torch.randn(x.shape) if x.is_floating_point() else x for x in inputs)
