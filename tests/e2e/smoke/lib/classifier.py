"""A network that models and programs share."""

from __future__ import annotations

import torch
from lib.layers import Residual
from torch import nn

FEATURES = 64
CLASSES = 10


class Classifier(nn.Module):
    """Takes batches of feature vectors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, width)
        self.middle = Residual(width)
        self.last = nn.Linear(width, CLASSES)
        # Too small for groups of 32: a 4-bit recipe leaves it alone.
        self.small = nn.Linear(8, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits, (batch, classes)."""
        return self.last(self.middle(torch.relu(self.first(x)))) + self.small(x[:, :8])
