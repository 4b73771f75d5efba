"""Vulkan takes the last dimension, named -1, for the first one. Needs a build with Vulkan."""

import torch
from run import report, vulkan_difference

torch.manual_seed(0)
found = vulkan_difference(
    lambda x: torch.gather(x, -1, torch.tensor([[0, 1], [2, 3]])), (torch.randn(2, 4),)
)
report("gather", found, 0.1)
