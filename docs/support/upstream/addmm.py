"""XNNPACK's partitioner takes addmm as a linear layer, and drops beta and alpha."""

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from run import difference, report

torch.manual_seed(0)
bias, weight = torch.randn(5), torch.randn(4, 5)
found = difference(
    lambda x: torch.addmm(bias, x, weight, beta=0.5, alpha=2),
    (torch.randn(3, 4),),
    [XnnpackPartitioner()],
)
report("addmm(beta=0.5, alpha=2)", found, 1e-3)
