"""QNN has one layout for a kernel of a convolution and of a transposed one. Needs QNN's SDK."""

import torch
import torch.nn.functional as F
from run import qnn_difference, report

torch.manual_seed(0)
kernel = torch.randn(4, 4, 3, 3)
found = qnn_difference(
    lambda x: F.conv_transpose2d(F.conv2d(x, kernel), kernel), (torch.randn(1, 4, 8, 8),)
)
report("a shared kernel", found, 0.5)
