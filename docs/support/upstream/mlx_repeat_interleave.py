"""MLX repeats rows where no dimension is named. Needs macOS."""

import torch
from run import mlx_difference, report_failure

report_failure(
    "repeat_interleave",
    lambda: mlx_difference(lambda x: torch.repeat_interleave(x, 2), (torch.ones(2, 3),)),
)
