"""QNN's passes drop the batch of 3-D maxima. Needs QNN's SDK."""

import torch
import torch.nn.functional as F
from run import qnn_difference, report

found = qnn_difference(lambda x: F.max_pool3d(x, 2), (torch.ones(1, 2, 4, 4, 4),))
report("max_pool3d", found, 0.1)
