"""Vulkan's softmax along a batch ends the process. Needs a build with Vulkan."""

import torch
from run import report_end, vulkan_difference

report_end(
    "softmax", lambda: vulkan_difference(lambda x: torch.softmax(x, 0), (torch.ones(2, 4, 4, 4),))
)
