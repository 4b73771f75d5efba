"""A net to lower."""

from __future__ import annotations

import torch


def linear() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A linear layer and its example inputs."""
    return torch.nn.Linear(8, 4), (torch.ones(1, 8),)
