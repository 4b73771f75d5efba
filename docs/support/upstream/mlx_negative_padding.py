"""MLX fails on negative padding. Needs macOS."""

import torch
import torch.nn.functional as F
from run import mlx_difference, report_failure

report_failure(
    "constant_pad_nd", lambda: mlx_difference(lambda x: F.pad(x, (-1, 1)), (torch.ones(2, 4),))
)
