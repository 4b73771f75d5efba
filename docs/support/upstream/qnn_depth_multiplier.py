"""QNN's dilated convolutions that multiply channels are 2 off. Needs QNN's SDK."""

import torch
from run import qnn_difference, report

torch.manual_seed(0)
found = qnn_difference(torch.nn.Conv2d(4, 8, 3, groups=4, dilation=2), (torch.randn(1, 4, 8, 8),))
report("conv2d", found, 0.1)
