"""QNN gives -66 for logsigmoid of -100. Needs QNN's SDK."""

import torch
import torch.nn.functional as F
from run import qnn_difference, report

found = qnn_difference(F.logsigmoid, (torch.tensor([-100.0]),))
report("logsigmoid", found, 1.0)
