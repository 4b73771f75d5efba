"""MLX fails on squeeze of a dimension that is not 1. Needs macOS."""

import torch
from run import mlx_difference, report_failure

report_failure("squeeze", lambda: mlx_difference(lambda x: x.squeeze(1) * 2, (torch.ones(2, 3),)))
