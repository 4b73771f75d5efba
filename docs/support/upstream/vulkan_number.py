"""Vulkan ends the process on results without dimensions. Needs a build with Vulkan."""

import torch
from run import report_end, vulkan_difference

report_end("sum", lambda: vulkan_difference(lambda x: x.sum() * 2, (torch.ones(2, 4),)))
