"""The portable kernel shifts by negative numbers as the processor does; eager gives zeros."""

import torch
from run import difference, report

x = torch.tensor([1, 2, 3], dtype=torch.int32)
report("x << -3", difference(lambda x: x.bitwise_left_shift(-3), (x,)), 0.5)
