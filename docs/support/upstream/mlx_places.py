"""MLX writes no places of maxima. Needs macOS."""

import torch
import torch.nn.functional as F
from run import mlx_difference, report_failure

report_failure(
    "max_pool2d_with_indices",
    lambda: mlx_difference(
        lambda x: F.max_pool2d(x, 2, return_indices=True)[1], (torch.ones(1, 2, 4, 4),)
    ),
)
