"""MLX's pass on casts drops x.int().float(). Needs macOS."""

import torch
from run import mlx_difference, report

found = mlx_difference(lambda x: x.int().float(), (torch.tensor([0.7]),))
report("_to_copy", found, 0.1)
