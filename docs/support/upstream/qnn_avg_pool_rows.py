"""QNN's averages of padded rows are shifted. Needs QNN's SDK."""

import torch
import torch.nn.functional as F
from run import qnn_difference, report

torch.manual_seed(0)
found = qnn_difference(lambda x: F.avg_pool1d(x, 3, 1, 1), (torch.randn(1, 4, 6),))
report("avg_pool1d", found, 0.1)
