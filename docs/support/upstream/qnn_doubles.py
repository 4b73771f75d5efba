"""QNN gives zeros for 64-bit floats. Needs QNN's SDK."""

import torch
from run import qnn_difference, report

found = qnn_difference(lambda x: x * 2, (torch.ones(2, 3).double(),))
report("mul", found, 0.1)
