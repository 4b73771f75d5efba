"""QNN's windows read other elements behind a slice that begins later. Needs QNN's SDK."""

import torch
from run import qnn_difference, report

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3), torch.nn.AvgPool2d(3, 1))
x = torch.randn(1, 4, 12, 12)
found = qnn_difference(lambda x: net[1](net[0](x)[:, :, :, 1:]), (x,))
report("slice", found, 0.1)
