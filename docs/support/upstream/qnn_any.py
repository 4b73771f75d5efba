"""QNN takes fractions below 0.5 for zeros in any. Needs QNN's SDK."""

import torch
from run import qnn_difference, report

found = qnn_difference(lambda x: torch.any(x, 1).float(), (torch.tensor([[0.25, 0.0]]),))
report("any", found, 0.5)
