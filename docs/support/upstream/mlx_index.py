"""MLX puts what several indices pick in another order. Needs macOS."""

import torch
from run import mlx_difference, report

torch.manual_seed(0)
found = mlx_difference(
    lambda x: x[:, torch.tensor([0, 1]), torch.tensor([1, 2])], (torch.randn(2, 3, 4),)
)
report("index", found, 0.1)
