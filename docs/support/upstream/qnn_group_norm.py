"""QNN normalizes groups of rows over something else. Needs QNN's SDK."""

import torch
import torch.nn.functional as F
from run import qnn_difference, report

torch.manual_seed(0)
found = qnn_difference(lambda x: F.group_norm(x, 2), (torch.randn(2, 4, 6),))
report("group_norm", found, 0.1)
