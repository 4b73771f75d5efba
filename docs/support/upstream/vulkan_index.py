"""Vulkan picks other rows than an index names. Needs a build with Vulkan."""

import torch
from run import report, vulkan_difference

torch.manual_seed(0)
found = vulkan_difference(lambda x: x[torch.tensor([0, 1])], (torch.randn(2, 4),))
report("index", found, 0.1)
