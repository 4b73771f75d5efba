"""Vulkan picks other pixels than eager where it resizes 4 to 7. Needs a build with Vulkan."""

import torch
import torch.nn.functional as F
from run import report, vulkan_difference

torch.manual_seed(0)
found = vulkan_difference(lambda x: F.interpolate(x, size=(7, 9)), (torch.randn(1, 4, 4, 4),))
report("upsample_nearest2d", found, 0.1)
