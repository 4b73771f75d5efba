"""OpenVINO permutes no value that it concatenates, too. Needs openvino and nncf."""

import torch
import torch.nn.functional as F
from run import openvino_difference, report

torch.manual_seed(0)
weight = torch.randn(8, 8, 3, 3)


def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A layer of rows of channels, and one of them joined with others."""
    first = x.relu()
    pictures = first.permute(0, 3, 1, 2), torch.cat([x, first], 1).permute(0, 3, 1, 2)
    return F.conv2d(pictures[0], weight), F.conv2d(pictures[1], weight)


report("torch.cat() and permute()", openvino_difference(both, (torch.randn(1, 5, 6, 8),)), 0.5)
