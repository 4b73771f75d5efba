"""QNN's adaptive maxima of 5 to 3 have windows of one size, 0.9 off. Needs QNN's SDK."""

import torch
import torch.nn.functional as F
from run import qnn_difference, report

torch.manual_seed(0)
found = qnn_difference(lambda x: F.adaptive_max_pool2d(x, 3), (torch.randn(1, 4, 5, 5),))
report("adaptive_max_pool2d", found, 0.1)
