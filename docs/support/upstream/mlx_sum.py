"""MLX adds 32-bit whole numbers up in 32 bits. Needs macOS."""

import torch
from run import mlx_difference, report

found = mlx_difference(lambda x: x.sum(0), (torch.full((4,), 2**30, dtype=torch.int32),))
report("sum", found, 1)
