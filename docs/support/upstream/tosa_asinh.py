"""Arm's passes write asinh as log(x + sqrt(x * x + 1)), wrong below -100. Needs tosa-tools."""

import torch
from run import report, tosa_difference

found = tosa_difference(torch.asinh, (torch.tensor([-300.0, -1000.0, 1000.0]),))
report("asinh", found, 1e-2)
