"""Vulkan computes padded depthwise convolutions of 4 x 4 wrong. Needs a build with Vulkan."""

import torch
import torch.nn.functional as F
from run import report, vulkan_difference

torch.manual_seed(0)
weight = torch.randn(4, 1, 4, 4)
found = vulkan_difference(
    lambda x: F.conv2d(x, weight, padding=1, groups=4), (torch.randn(1, 4, 8, 8),)
)
report("conv2d", found, 0.1)
