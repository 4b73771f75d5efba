"""OpenVINO computes 64-bit floats in 32 bits. Needs openvino and nncf."""

import torch
from run import openvino_difference, report

found = openvino_difference(lambda x: x * 2 + 1e-9, (torch.ones(2).double(),))
report("add", found, 1e-12)
