"""QNN's windows read other elements behind a slice that begins later. Needs QNN's SDK."""

import torch
import torch.nn.functional as F
from run import qnn_difference, report

torch.manual_seed(0)
weight = torch.randn(4, 4, 3, 3)
found = qnn_difference(
    lambda x: F.avg_pool2d(F.conv2d(x, weight)[..., 1:], 3, 1), (torch.randn(1, 4, 12, 12),)
)
report("slice", found, 0.1)
