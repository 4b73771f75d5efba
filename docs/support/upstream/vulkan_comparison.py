"""Vulkan's comparisons of whole numbers end the process. Needs a build with Vulkan."""

import torch
from run import report_end, vulkan_difference

report_end("le", lambda: vulkan_difference(lambda x: x <= 2, (torch.ones(4, dtype=torch.int32),)))
