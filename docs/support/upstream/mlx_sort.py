"""MLX sorts up where it is to sort down. Needs macOS."""

import torch
from run import mlx_difference, report

torch.manual_seed(0)
found = mlx_difference(lambda x: torch.sort(x, descending=True)[0], (torch.randn(2, 3),))
report("sort", found, 0.1)
