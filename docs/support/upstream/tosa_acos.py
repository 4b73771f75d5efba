"""Arm's passes write acos as a polynomial. Needs tosa-tools."""

import torch
from run import report, tosa_difference

found = tosa_difference(torch.acos, (torch.linspace(-1, 1, 21),))
report("acos", found, 1e-3)
