"""Arm's passes round where a cast to 8 bits cuts off. Needs tosa-tools."""

import torch
from run import report, tosa_difference

found = tosa_difference(lambda x: x.to(torch.int8), (torch.tensor([0.7, -1.7]),))
report("_to_copy", found, 0.5)
