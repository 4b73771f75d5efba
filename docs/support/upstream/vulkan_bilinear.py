"""Vulkan ends the process on resizing by other factors than ratios. Needs a build with Vulkan."""

import torch
import torch.nn.functional as F
from run import report_end, vulkan_difference

report_end(
    "upsample_bilinear2d",
    lambda: vulkan_difference(
        lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), (torch.ones(1, 4, 6, 6),)
    ),
)
