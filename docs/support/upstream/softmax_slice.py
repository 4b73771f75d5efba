"""XNNPACK computes softmax over the channels for a slice of an input with its channels last."""

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from run import difference, report

torch.manual_seed(0)
x = torch.randn(1, 4, 6, 6).to(memory_format=torch.channels_last)
found = difference(lambda x: x.mT.softmax(-1), (x,), [XnnpackPartitioner()])
report("softmax(-1) of a transpose", found, 1e-3)
