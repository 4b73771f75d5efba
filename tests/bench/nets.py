"""Small networks of several kinds, for benchmarks."""

from __future__ import annotations

import torch
from etbuild import ModelContext
from torch import nn


def make(kind: str, width: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A network and its example inputs.

    Args:
      kind: "mlp", "conv", "mobile" (17 inverted residuals, as MobileNetV2 has) or "attention".
      width: features or channels; a multiple of 32.
    """
    torch.manual_seed(width)
    if kind == "conv":
        net: nn.Module = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2), nn.ReLU(), nn.Conv2d(width, 8, 3), nn.Hardtanh()
        )
        return net.eval(), (torch.randn(1, 3, 32, 32),)
    if kind == "mobile":
        return _Mobile(width).eval(), (torch.randn(1, 3, 64, 64),)
    if kind == "attention":
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, dropout=0.0)
        return layer.eval(), (torch.randn(1, 16, width),)
    net = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
    return net.eval(), (torch.randn(1, width),)


class _Mobile(nn.Sequential):
    """A stem, 17 inverted residuals, and a classifier."""

    def __init__(self, width: int) -> None:
        super().__init__(
            *_convolution(3, width, 3, stride=2),
            *(_Residual(width) for _ in range(17)),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(width, 100),
        )


class _Residual(nn.Module):
    """A depthwise convolution between two of one pixel, and what came in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = 4 * width
        self.layers = nn.Sequential(
            *_convolution(width, inner, 1),
            *_convolution(inner, inner, 3, groups=inner),
            nn.Conv2d(inner, width, 1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


def _convolution(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return convolution, nn.BatchNorm2d(outputs), nn.ReLU6()


def build(ctx: ModelContext) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The entry point of the `et_model`s; args: kind, width."""
    return make(ctx.arg("kind"), int(ctx.arg("width")))
