"""Vulkan takes numbers that are less than 1e-5 apart for equal. Needs a build with Vulkan."""

import torch
from run import report, vulkan_difference


def equal(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """1 where two tensors are equal."""
    return torch.where(x == y, 1.0, 0.0)


found = vulkan_difference(equal, (torch.tensor([1e-6]), torch.tensor([2e-6])))
report("eq", found, 0.1)
