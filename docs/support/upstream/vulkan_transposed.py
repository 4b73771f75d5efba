"""Vulkan's dilated transposed convolutions end the process. Needs a build with Vulkan."""

import torch
import torch.nn.functional as F
from run import report_end, vulkan_difference

weight = torch.ones(4, 4, 3, 3)
report_end(
    "conv_transpose2d",
    lambda: vulkan_difference(
        lambda x: F.conv_transpose2d(x, weight, dilation=2), (torch.ones(1, 4, 8, 8),)
    ),
)
