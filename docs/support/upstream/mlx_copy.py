"""MLX does not repeat what is copied into a larger tensor. Needs macOS."""

import torch
from run import mlx_difference, report_failure

report_failure(
    "copy",
    lambda: mlx_difference(
        lambda x: torch.ops.aten.copy.default(x, torch.tensor(1.0)), (torch.ones(2, 3),)
    ),
)
