"""Vulkan ends the process on maxima without strides. Needs a build with Vulkan."""

import torch
import torch.nn.functional as F
from run import report_end, vulkan_difference

report_end(
    "max_pool2d", lambda: vulkan_difference(lambda x: F.max_pool2d(x, 3), (torch.ones(1, 4, 6, 6),))
)
