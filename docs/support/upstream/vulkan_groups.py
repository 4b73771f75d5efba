"""Vulkan computes convolutions in groups wrong. Needs a build with Vulkan."""

import torch
import torch.nn.functional as F
from run import report, vulkan_difference

torch.manual_seed(0)
weight = torch.randn(8, 2, 3, 3)
found = vulkan_difference(lambda x: F.conv2d(x, weight, groups=2), (torch.randn(1, 4, 8, 8),))
report("conv2d", found, 0.1)
