"""Small nets that every backend is tried on."""

from __future__ import annotations

import torch
from etbuild import Method, ModelContext, ModelSpec


class Conv(torch.nn.Module):
    """A classifier of small pictures: convolutions, a depthwise one, pooling, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1),
            torch.nn.BatchNorm2d(16),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(16, 16, 3, padding=1, groups=16),
            torch.nn.ReLU6(),
            torch.nn.Conv2d(16, 32, 1),
            torch.nn.ReLU(),
            torch.nn.AvgPool2d(8),
        )
        self.classify = torch.nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(x).flatten(1))


def conv(ctx: ModelContext) -> ModelSpec:
    """The classifier, (1, 3, 16, 16) to (1, 10)."""
    torch.manual_seed(0)
    net = Conv().eval()
    pictures = [(torch.randn(1, 3, 16, 16),) for _ in range(8)]
    return ModelSpec({"forward": Method(net, pictures[0])}, calibration=lambda: iter(pictures))


def mlp(ctx: ModelContext) -> ModelSpec:
    """Three linear layers, (4, 64) to (4, 32)."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 32),
    ).eval()
    rows = [(torch.randn(4, 64),) for _ in range(8)]
    return ModelSpec({"forward": Method(net, rows[0])}, calibration=lambda: iter(rows))


def mlp_methods(ctx: ModelContext) -> ModelSpec:
    """The three linear layers for four rows and for one: two methods with the same weights."""
    methods = mlp(ctx).methods
    net = methods["forward"].module
    sizes = {"rows_4": 4, "rows_1": 1}
    return ModelSpec({name: Method(net, (torch.randn(size, 64),)) for name, size in sizes.items()})


class Upscale(torch.nn.Module):
    """Doubles a picture's size: a depthwise convolution, a pointwise one, a transposed one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(8, 8, 3, padding=1, groups=8),
            torch.nn.ReLU(),
            torch.nn.Conv2d(8, 16, 1),
            torch.nn.ReLU(),
            torch.nn.ConvTranspose2d(16, 4, 2, stride=2),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def upscale(ctx: ModelContext) -> ModelSpec:
    """The picture's size doubled, (1, 8, 8, 8) to (1, 4, 16, 16)."""
    return _calibrated(Upscale(), (1, 8, 8, 8))


class Attention(torch.nn.Module):
    """A block of a transformer: attention of four heads, and two linear layers with a GELU."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        seen = torch.nn.functional.scaled_dot_product_attention(heads[0], heads[1], heads[2])
        x = x + self.out(seen.transpose(1, 2).flatten(-2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))


def attention(ctx: ModelContext) -> ModelSpec:
    """The block on 16 positions, (1, 16, 64) to the same."""
    return _calibrated(Attention(), (1, 16, 64))


class Lstm(torch.nn.Module):
    """A recurrent layer and a linear one on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(16, 32, batch_first=True)
        self.classify = torch.nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(x)
        return self.classify(states[:, -1])


def lstm(ctx: ModelContext) -> ModelSpec:
    """The last state's classes, (1, 5, 16) to (1, 4)."""
    return _calibrated(Lstm(), (1, 5, 16))


class Small(torch.nn.Module):
    """Activations far below 1, which a quantizer's smallest scale must not lose."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x * 1e-3) * 1e-2


def small(ctx: ModelContext) -> ModelSpec:
    """A linear layer on numbers of a thousandth, (4, 64) to (4, 32)."""
    return _calibrated(Small(), (4, 64))


def _calibrated(net: torch.nn.Module, shape: tuple[int, ...]) -> ModelSpec:
    torch.manual_seed(0)
    for parameter in net.parameters():
        torch.nn.init.uniform_(parameter, -0.2, 0.2)
    inputs = [(torch.randn(shape),) for _ in range(8)]
    return ModelSpec({"forward": Method(net.eval(), inputs[0])}, calibration=lambda: iter(inputs))
