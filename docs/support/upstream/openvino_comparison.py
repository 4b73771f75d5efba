"""OpenVINO compares a number with itself, rounded to bfloat16. Needs openvino and nncf.

It shows on processors with bfloat16.
"""

import torch
from run import openvino_difference, report

torch.manual_seed(0)
weight = torch.randn(8, 8)
found = openvino_difference(
    lambda x: ((x == x.amax(-1, keepdim=True)) * x) @ weight, (torch.randn(4, 8),)
)
report("x == x.amax()", found, 0.1)
