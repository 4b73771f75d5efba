"""XNNPACK's partitioner drops the factor of a bilinear resize: the ratio of sizes is another."""

import torch
import torch.nn.functional as F
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from run import difference, report

torch.manual_seed(0)
found = difference(
    lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
    (torch.randn(1, 2, 9, 11),),
    [XnnpackPartitioner()],
)
report("interpolate(scale_factor=1.7, mode='bilinear')", found, 1e-3)
