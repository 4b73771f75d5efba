"""A small detector, and what its outputs mean."""

from __future__ import annotations

import torch

nn = torch.nn


class Block(nn.Module):
    """A residual block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.clamp = nn.ReLU6()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, height, width)"""
        return x + self.clamp(self.conv(x))


class Detector(nn.Module):
    """Boxes of a grid: x1, y1, x2, y2, from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(Block(8), Block(8))
        self.head = nn.Conv2d(8, 4, 4, stride=4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """(1, 3, 32, 32)"""
        return self.head(self.blocks(self.stem(image))).sigmoid()


def build() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The detector, with an example that proves little."""
    torch.manual_seed(0)
    return Detector().eval(), (torch.zeros(1, 3, 32, 32),)
