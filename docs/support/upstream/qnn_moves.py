"""QNN moves whole numbers through floats of 24 bits. Needs QNN's SDK."""

import torch
from run import qnn_difference, report

x = torch.tensor([387420489, 7, -387420489, 16777217], dtype=torch.int32).repeat(24)
found = qnn_difference(lambda x, y: torch.stack([x, y]), (x, x + 2))
report("stack", found, 0.5)
