"""The portable kernel of pow computes whole numbers in doubles, which have 53 bits."""

import torch
from run import difference, report

report("(2**31 - 1) ** 2 in int64", difference(lambda x: x**2, (torch.tensor([2**31 - 1]),)), 0.5)
