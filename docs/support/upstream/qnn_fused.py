"""QNN computes tanh behind a linear layer by a coarse table. Needs QNN's SDK."""

import torch
import torch.nn.functional as F
from run import qnn_difference, report

torch.manual_seed(0)
weight = torch.randn(6, 6)
found = qnn_difference(lambda x: F.linear(x, weight).tanh(), (torch.randn(1, 4, 6, 6),))
report("tanh of a linear layer", found, 3e-3)
