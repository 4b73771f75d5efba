"""Arm's passes write log1p as a polynomial, up to 2 off. Needs tosa-tools."""

import torch
from run import report, tosa_difference

found = tosa_difference(torch.log1p, (torch.tensor([-0.9, 0.5, 5.0, 50.0]),))
report("log1p", found, 1e-2)
