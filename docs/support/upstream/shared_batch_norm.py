"""XNNPACK gives two batch norms behind one shared layer the factors of the first."""

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from run import difference, report


class Shared(torch.nn.Module):
    """A convolution with a batch norm for each of two levels."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 3, 1)
        self.norms = torch.nn.ModuleList([torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3)])
        self.norms[0].weight.data.fill_(2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of both levels."""
        return self.norms[0](self.layer(x)) - self.norms[1](self.layer(x))


torch.manual_seed(0)
found = difference(Shared().eval(), (torch.randn(1, 3, 4, 4),), [XnnpackPartitioner()])
report("two batch norms behind one convolution", found, 1e-3)
