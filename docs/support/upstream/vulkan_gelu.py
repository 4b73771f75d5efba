"""Vulkan computes the exact GELU by its approximation. Needs a build with Vulkan."""

import torch
import torch.nn.functional as F
from run import report, vulkan_difference

found = vulkan_difference(F.gelu, (torch.tensor([2.0]),))
report("gelu", found, 1e-5)
