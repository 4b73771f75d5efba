"""QNN takes slopes of channels for slopes of columns. Needs QNN's SDK."""

import torch
from run import qnn_difference, report

torch.manual_seed(0)
found = qnn_difference(torch.nn.PReLU(4), (torch.randn(2, 4, 6),))
report("prelu", found, 0.1)
