"""Vulkan rounds quotients down where they are to be cut off. Needs a build with Vulkan."""

import torch
from run import report, vulkan_difference

found = vulkan_difference(
    lambda x, y: torch.div(x, y, rounding_mode="trunc"), (torch.tensor([-7.0]), torch.tensor([2.0]))
)
report("div", found, 0.1)
