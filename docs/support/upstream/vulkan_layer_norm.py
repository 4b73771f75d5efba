"""Vulkan normalizes layers of ten numbers wrong. Needs a build with Vulkan."""

import torch
import torch.nn.functional as F
from run import report, vulkan_difference

torch.manual_seed(0)
weight, bias = torch.ones(10), torch.zeros(10)
found = vulkan_difference(lambda x: F.layer_norm(x, (10,), weight, bias), (torch.randn(2, 5, 10),))
report("layer_norm", found, 0.1)
