"""MLX drops the dimensions of a sum of all that is to keep them. Needs macOS."""

import torch
from run import mlx_difference, report_failure

report_failure(
    "sum", lambda: mlx_difference(lambda x: x.sum(dim=None, keepdim=True), (torch.ones(2, 3),))
)
