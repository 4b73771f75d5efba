"""XNNPACK leaves out all activations behind a layer but the last one: relu, then hardtanh."""

import torch
import torch.nn.functional as F
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from run import difference, report


class Net(torch.nn.Module):
    def forward(self, x, y):
        return F.hardtanh(torch.relu(x + y), -0.5, 0.5)


torch.manual_seed(0)
found = difference(Net(), (torch.randn(3, 4), torch.randn(3, 4)), [XnnpackPartitioner()])
report("hardtanh(relu(x + y), -0.5, 0.5)", found, 0.1)
