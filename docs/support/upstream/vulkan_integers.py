"""Vulkan computes 64-bit whole numbers in 32 bits. Needs a build with Vulkan."""

import torch
from run import report, vulkan_difference

found = vulkan_difference(lambda x: x * 3000000000, (torch.tensor([1, 2]),))
report("mul", found, 0.1)
