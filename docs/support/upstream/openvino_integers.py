"""OpenVINO computes 64-bit whole numbers in 32 bits. Needs openvino and nncf."""

import torch
from run import openvino_difference, report

found = openvino_difference(lambda x: x * 3000000000, (torch.tensor([1, 2]),))
report("mul", found, 0.5)
