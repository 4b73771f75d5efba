"""MLX fails on softmax of a single number. Needs macOS."""

import torch
from run import mlx_difference, report_failure

report_failure(
    "softmax", lambda: mlx_difference(lambda x: torch.softmax(x, 0), (torch.tensor(3.0),))
)
