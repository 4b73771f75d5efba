"""Nets of operators beside each other that passes of an export or of a delegate match.

The modules among them are what recipes quantize: torchao only takes `torch.nn.Linear`, PT2E's
quantizers the patterns of these nets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.operators.nets import Net, described

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "hardtanh": lambda: nn.Hardtanh(-0.5, 0.7),
    "hardswish": nn.Hardswish,
    "leaky_relu": nn.LeakyReLU,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
}


def nets() -> Iterator[Net]:
    """All nets of this file, in the order of their names."""
    made = [net for table in (_layers, _convolved, _functions) for net in table()]
    yield from sorted(made, key=lambda net: (net.operator, net.dtype))


def _filled(module: nn.Module) -> nn.Module:
    """A module with the same numbers each time, and statistics of batches that are not 0 and 1."""
    generator = torch.Generator().manual_seed(7)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.4
    for name, buffer in module.named_buffers():
        if name.endswith("running_var"):
            buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
        elif name.endswith("running_mean"):
            buffer.copy_(torch.randn(buffer.shape, generator=generator) * 0.3)
    return module.eval()


def _net(operator: str, function: Callable[..., Any], *shapes: tuple[int, ...], note: str) -> Net:
    generator = torch.Generator().manual_seed(len(operator))
    inputs = tuple(torch.randn(shape, generator=generator) for shape in shapes)
    said = f"float32: {note}{', ' if note else ''}{', '.join(map(described, inputs))}"
    return Net(operator, said, function, inputs)


def _layers() -> Iterator[Net]:
    """Linear layers and what comes before or after them."""
    for width, bias, rank in itertools.product((32, 64, 20), (True, False), (2, 3)):
        shape = (3, width) if rank == 2 else (2, 3, width)
        module = _filled(nn.Sequential(nn.Linear(width, 12, bias=bias)))
        yield _net("linear", module, shape, note="" if bias else "no bias")
    for name, activation in _ACTIVATIONS.items():
        module = _filled(nn.Sequential(nn.Linear(64, 32), activation()))
        yield _net(f"linear + {name}", module, (3, 64), note="")
    module = _filled(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)))
    yield _net("linear + relu + linear", module, (3, 64), note="")
    yield _net("linear + add", _filled(_Residual(nn.Linear(64, 64))), (3, 64), note="")
    module = _filled(nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 32)))
    yield _net("layer_norm + linear", module, (3, 64), note="")
    module = _filled(nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32)))
    yield _net("linear + bn", module, (3, 64), note="")
    module = _filled(nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Softmax(-1)))
    yield _net("flatten + linear + softmax", module, (2, 4, 16), note="")
    yield _net("lstm", _filled(_First(nn.LSTM(32, 32, batch_first=True))), (1, 3, 32), note="")
    yield _net("gru", _filled(_First(nn.GRU(32, 32, batch_first=True))), (1, 3, 32), note="")
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    yield _net("transformer encoder", _filled(layer), (1, 4, 32), note="")
    for width in (32, 8):
        note = "" if width == 32 else f"{width} numbers"
        yield _net("embedding + linear", _filled(_Embedded(width)), (1, 5), note=note)


class _Residual(nn.Module):
    """The sum of a layer's output and its input."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + x


class _First(nn.Module):
    """The first output of a layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


class _Reread(nn.Module):
    """A function of a layer's output, which it reads more than once, and of more layers."""

    def __init__(self, layer: nn.Module, function: Callable[..., Any], *more: nn.Module) -> None:
        super().__init__()
        self.layer, self.function = layer, function
        self.more = nn.ModuleList(more)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self.layer(x), *self.more)


class _Embedded(nn.Module):
    """Rows of a table, and a linear layer on them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table, self.linear = nn.Embedding(10, width), nn.Linear(width, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.table((x * 3).long().abs() % 10))


def _convolved() -> Iterator[Net]:
    """Convolutions, and the norms, activations and paddings around them."""
    kinds: dict[str, Callable[[], nn.Module]] = {
        "conv": lambda: nn.Conv2d(8, 8, 3, padding=1),
        "depthwise conv": lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8),
        "pointwise conv": lambda: nn.Conv2d(8, 16, 1),
        "strided conv": lambda: nn.Conv2d(8, 8, 3, stride=2, bias=False),
        "conv of groups": lambda: nn.Conv2d(8, 16, 3, groups=4),
        "transposed conv": lambda: nn.ConvTranspose2d(8, 8, 2, stride=2),
        "conv1d": lambda: nn.Conv1d(8, 8, 3, padding=1),
    }
    for kind, make in kinds.items():
        shape = (1, 8, 12) if kind == "conv1d" else (1, 8, 9, 10)
        channels = 16 if kind in ("pointwise conv", "conv of groups") else 8
        norm = nn.BatchNorm1d if kind == "conv1d" else nn.BatchNorm2d
        yield _net(kind, _filled(nn.Sequential(make())), shape, note="")
        yield _net(f"{kind} + bn", _filled(nn.Sequential(make(), norm(channels))), shape, note="")
        for name, activation in _ACTIVATIONS.items():
            module = _filled(nn.Sequential(make(), activation()))
            yield _net(f"{kind} + {name}", module, shape, note="")
        for name in ("relu", "hardswish"):
            module = _filled(nn.Sequential(make(), norm(channels), _ACTIVATIONS[name]()))
            yield _net(f"{kind} + bn + {name}", module, shape, note="")
    reread: dict[str, Callable[[torch.Tensor], Any]] = {
        "product with itself": lambda y: y @ y,
        "itself and its softmax": lambda y: (y, y.softmax(1)),
        "itself beside itself": lambda y: torch.cat([y, y], 1),
        "itself above itself": lambda y: torch.stack([y, y]),
        "its peaks": lambda y: y.tanh() * (F.max_pool2d(y.tanh(), 3, 1, 1) == y.tanh()),
    }
    for name, function in reread.items():
        module = _filled(_Reread(kinds["conv"](), function))
        yield _net(f"conv + {name}", module, (1, 8, 9, 9), note="")
    parts: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "later rows": lambda y: y[:, :, 1:],
        "later columns": lambda y: y[..., 2:],
        "ReLU of later rows": lambda y: y[:, :, 3:].relu(),
        "half of its rows": lambda y: y.chunk(2, 2)[1],
        "ones beside channels": lambda y: torch.cat([y[:, :6], torch.ones(1, 2, 9, 9)], 1),
        "zeros beside channels": lambda y: torch.cat([y[:, :6], torch.zeros(1, 2, 9, 9)], 1),
    }
    windows: dict[str, Callable[[], nn.Module]] = {
        "conv": lambda: nn.Conv2d(8, 8, 3),
        "depthwise conv": lambda: nn.Conv2d(8, 8, 3, groups=8),
        "avg_pool": lambda: nn.AvgPool2d(3, 1),
    }
    for (name, function), (kind, make) in itertools.product(parts.items(), windows.items()):
        module = _filled(nn.Sequential(_Reread(kinds["conv"](), function), make()))
        yield _net(f"conv + {name} + {kind}", module, (1, 8, 9, 9), note="")
    name, both = (
        "norm beside a residual layer",
        lambda y, last: (F.normalize(y, dim=1), last(y) + y),
    )
    module = _filled(_Reread(kinds["conv"](), both, kinds["conv"]()))
    yield _net(f"conv + {name}", module, (1, 8, 9, 9), note="")
    computed: dict[str, Callable[..., Any]] = {
        "with a computed bias": lambda y, last: F.conv2d(y, last.weight, y.mean((0, 2, 3))).relu(),
        "with a bias of code": lambda y, last: F.conv2d(
            y, last.weight, torch.tensor([0.5]).repeat(8)
        ),
        "with weights of code": lambda y, _: F.conv2d(
            y, torch.tensor([[[[1.0, 2, 1]]]]).repeat(8, 1, 1, 1), groups=8
        ),
        "with computed weights": lambda y, last: F.conv2d(
            y, last.weight * y.mean((2, 3)).view(1, 8, 1, 1), last.bias
        ).relu(),
    }
    for name, function in computed.items():
        module = _filled(_Reread(kinds["conv"](), function, kinds["conv"]()))
        yield _net(f"conv + conv {name}", module, (1, 8, 9, 9), note="")
    for pad in ((1, 1, 1, 1), (0, 1, 0, 1), (2, 0, 1, 3)):
        for name, padding in {
            "pad": nn.ConstantPad2d(pad, 0.0), "pad with 1": nn.ConstantPad2d(pad, 1.0),
            "reflection pad": nn.ReflectionPad2d(pad),
        }.items():  # fmt: skip
            module = _filled(nn.Sequential(padding, nn.Conv2d(8, 8, 3, padding=1)))
            yield _net(f"{name} + conv", module, (1, 8, 9, 10), note=f"{pad}")
    module = _filled(nn.Sequential(nn.ZeroPad2d(1), nn.MaxPool2d(2)))
    yield _net("pad + max_pool", module, (1, 8, 9, 10), note="")
    conv = nn.Conv2d(8, 8, 3, padding=1)
    yield _net("conv + add", _filled(_Residual(conv)), (1, 8, 9, 10), note="")
    block = nn.Sequential(conv, nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
    module = _filled(nn.Sequential(_Residual(block), nn.ReLU()))
    yield _net("residual block + relu", module, (1, 8, 9, 10), note="")
    for name, pool in {
        "max_pool": nn.MaxPool2d(2), "avg_pool": nn.AvgPool2d(2),
        "adaptive avg_pool": nn.AdaptiveAvgPool2d(1), "upsample": nn.Upsample(scale_factor=2),
    }.items():  # fmt: skip
        module = _filled(nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), pool))
        yield _net(f"conv + relu + {name}", module, (1, 8, 9, 10), note="")


def _functions() -> Iterator[Net]:
    """Pairs of functions that are folded, fused or reordered."""
    weight, scale = torch.linspace(-1, 1, 64).reshape(8, 8), torch.linspace(0.5, 2, 8)
    kernel = torch.linspace(-1, 1, 8 * 8 * 9).reshape(8, 8, 3, 3)
    pairs: dict[str, Callable[..., Any]] = {
        "mul + add": lambda x, y: x * y + y,
        "mul + add of constants": lambda x, y: x * scale + scale + y,
        "matmul + add": lambda x, y: x @ weight + y,
        "matmul + mul": lambda x, y: (x @ weight) * 0.125 + y,
        "add + relu": lambda x, y: F.relu(x + y),
        "sub + relu6": lambda x, y: F.relu6(x - y),
        "mul + relu": lambda x, y: F.relu(x * y),
        "add + add": lambda x, y: x + y + 1.5,
        "mul + sigmoid": lambda x, y: x * torch.sigmoid(y),
        "mul + tanh-gelu": lambda x, y: F.gelu(x, approximate="tanh") * y,
        "div + add": lambda x, y: x / 3.0 + y,
        "permute + permute": lambda x, y: x.permute(1, 0).permute(1, 0) + y,
        "permute + matmul": lambda x, y: x.T @ y,
        "sub of a number + permute": lambda x, y: ((1 - x).permute(1, 0), y),
        "comparison of a number + permute": lambda x, y: ((x < 0.3).permute(1, 0), y),
        "reshape + permute + reshape": lambda x, y: x.reshape(2, 2, 8).permute(1, 0, 2) + y[:2],
        "cat + slice": lambda x, y: torch.cat([x, y], 1)[:, 4:12],
        "cat beside a conv of the same": lambda x, y: (
            F.conv1d(y[None].relu().mT, kernel[..., 0]),
            F.conv1d(torch.cat([x[None], y[None].relu()], 1).mT, kernel[..., 0]),
        ),
        "split + add": lambda x, y: sum(torch.split(x, 4, 1)) + y[:, :4],
        "chunk + cat": lambda x, y: torch.cat(torch.chunk(x, 2, 1)[::-1], 1) + y,
        "pow + mean + rsqrt": lambda x, y: x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() + y,
        "exp + sum + div": lambda x, y: x.exp() / x.exp().sum(-1, keepdim=True) + y,
        "sub of max + exp": lambda x, y: (x - x.amax(-1, keepdim=True)).exp() + y,
        "maxima + matmul": lambda x, y: ((x == x.amax(-1, True)) * x) @ weight + y,
        "clamp + clamp": lambda x, y: x.clamp(-1, 1).clamp(-0.5, 2) + y,
        "relu + relu6": lambda x, y: F.relu6(F.relu(x)) + y,
        "neg + relu": lambda x, y: F.relu(-x) + y,
        "conv of the same + add": lambda x, y: (
            F.conv2d(x.reshape(1, 8, 2, 2), kernel, padding=1).reshape(4, 8) + y
        ),
        "to half and back": lambda x, y: x.half().float() + y,
        "to whole and back": lambda x, y: (x * 4).long().float() + y,
        "where + mul": lambda x, y: torch.where(x > 0, x * 2, y * 3),
        "masked softmax": lambda x, y: (
            x.masked_fill(torch.triu(torch.ones(4, 8), 1).bool(), float("-inf")).softmax(-1) + y
        ),
        "rotary halves": lambda x, y: torch.cat([-x[:, 4:], x[:, :4]], -1) * y,
        "the same twice": lambda x, y: (x + y, x + y),
        "an input as it is": lambda x, y: (x, x + y),
        "a constant": lambda x, y: (torch.ones(3), x + y),
    }
    for name, function in pairs.items():
        yield _net(name, function, (4, 8), (4, 8), note="")
    name, sums = "column as a row + add", lambda x, y: (x * 2).reshape(1, 1, 5) + y
    yield _net(name, sums, (5, 1), (1, 5, 5), note="")
    name, product = "column as a row + matmul", lambda x, y: (x * 2).reshape(1, 1, 5) @ y
    yield _net(name, product, (5, 1), (1, 5, 3), note="")
