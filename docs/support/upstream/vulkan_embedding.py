"""Vulkan's embeddings of more than 16,384 rows give other rows. Needs a build with Vulkan."""

import torch
import torch.nn.functional as F
from run import report, vulkan_difference

torch.manual_seed(0)
weight = torch.randn(20000, 4)
found = vulkan_difference(
    lambda x: F.embedding(x, weight), (torch.tensor([1, 17000, 19999], dtype=torch.int32),)
)
report("embedding", found, 0.1)
