"""MLX takes an index of as many dimensions as a tensor for places along an axis. Needs macOS."""

import torch
from run import mlx_difference, report_failure

x, index = torch.randn(3, 4), torch.tensor([[0, 2, 1, 0]])
report_failure("x[[[0, 2, 1, 0]]]", lambda: mlx_difference(lambda x, i: x[i], (x, index)))
