"""QNN's passes give the whole row for one number of it. Needs QNN's SDK."""

import torch
from run import qnn_difference, report

found = qnn_difference(lambda x: x[1] * 2, (torch.ones(3),))
report("select", found, 0.1)
