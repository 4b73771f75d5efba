"""A number beside doubles becomes a tensor of 32 bits (and their sums are made in those)."""

import torch
from run import difference, report

x = torch.ones(3, dtype=torch.float64)
report("x * 0.1 in float64", difference(lambda x: x * 0.1, (x,)), 1e-12)
