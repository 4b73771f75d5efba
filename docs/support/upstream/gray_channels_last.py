"""XNNPACK's delegate fails in the first call if a picture of one channel has its channels last.

Its strides name two orders: the exporter takes rows, the memory plan channels that lie last.
"""

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from run import program, report_failure

x = torch.ones(2, 1, 3, 4)
last = torch.channels_last
net = program(lambda x: x.to(memory_format=last).relu(), (x,), [XnnpackPartitioner()])
report_failure("gray picture", lambda: net.run_method("forward", (x,)))
