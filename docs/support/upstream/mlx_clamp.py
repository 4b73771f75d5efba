"""MLX cuts fractions off the bounds of whole numbers. Needs macOS."""

import torch
from run import mlx_difference, report

found = mlx_difference(lambda x: torch.clamp(x, -1.5, 2.5), (torch.tensor([1, -2, 5]),))
report("clamp", found, 0.1)
