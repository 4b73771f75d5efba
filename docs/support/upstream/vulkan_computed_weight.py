"""Vulkan ends the process on weights that are computed. Needs a build with Vulkan."""

import torch
import torch.nn.functional as F
from run import report_end, vulkan_difference

report_end(
    "conv2d",
    lambda: vulkan_difference(
        lambda x, w: F.conv2d(x, w * 2), (torch.ones(1, 4, 8, 8), torch.ones(4, 4, 3, 3))
    ),
)
