"""Vulkan's powers of negative numbers by a tensor are no numbers. Needs a build with Vulkan."""

import torch
from run import report, vulkan_difference

found = vulkan_difference(torch.pow, (torch.tensor([-2.0]), torch.tensor([2.0])))
report("pow", found, 0.1)
