"""The portable kernel of adaptive_avg_pool2d refuses bytes in the first call; eager takes them."""

import torch
from run import program, report_failure
from torch.nn.functional import interpolate

x = torch.arange(36, dtype=torch.uint8).view(1, 1, 6, 6)
net = program(lambda x: interpolate(x, size=(3, 3), mode="area"), (x,))
report_failure("area of bytes", lambda: net.run_method("forward", (x,)))
