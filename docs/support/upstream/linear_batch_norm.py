"""XNNPACK multiplies the last dimension for a batch norm over the second, behind a linear layer."""

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from run import difference, report

torch.manual_seed(0)
norm = torch.nn.BatchNorm1d(3)
norm.weight.data = torch.tensor([1.0, 2.0, 3.0])
net = torch.nn.Sequential(torch.nn.Linear(4, 3), norm).eval()
found = difference(net, (torch.randn(2, 3, 4),), [XnnpackPartitioner()])
report("a batch norm of [2, 3, 3] behind a linear layer", found, 1e-3)
