"""OpenVINO fails on fractions as bounds of whole numbers. Needs openvino and nncf."""

import torch
from run import openvino_difference, report_failure

report_failure(
    "clamp",
    lambda: openvino_difference(lambda x: torch.clamp(x, -1.5, 2.5), (torch.tensor([1, -2, 5]),)),
)
