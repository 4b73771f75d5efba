"""XNNPACK computes softmax over the channels, not over the last dimension, behind a convolution."""

import torch
import torch.nn.functional as F
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from run import difference, report

torch.manual_seed(0)
weight = torch.randn(5, 3, 3, 3)
found = difference(
    lambda x: F.conv2d(x, weight, padding=1).softmax(-1),
    (torch.randn(1, 3, 6, 8),),
    [XnnpackPartitioner()],
)
report("softmax(-1) of a convolution", found, 1e-3)
