"""XNNPACK gives a convolution's weight another layout for all that read it in a delegate."""

import torch
import torch.nn.functional as F
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from run import difference, report


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(5, 3, 3, 3))

    def forward(self, x):
        return F.conv_transpose2d(F.conv2d(x, self.weight), self.weight)


torch.manual_seed(0)
found = difference(Tied().eval(), (torch.randn(1, 3, 7, 8),), [XnnpackPartitioner()])
report("a transposed convolution with the weight of another", found, 0.1)
