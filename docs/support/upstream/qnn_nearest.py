"""QNN picks other pixels than eager where it resizes 4 to 7. Needs QNN's SDK."""

import torch
import torch.nn.functional as F
from run import qnn_difference, report

torch.manual_seed(0)
found = qnn_difference(lambda x: F.interpolate(x, size=(7, 9)), (torch.randn(1, 4, 4, 4),))
report("upsample_nearest2d", found, 0.1)
