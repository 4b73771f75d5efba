"""OpenVINO computes relu of whole numbers in floats of 24 bits. Needs openvino and nncf."""

import torch
from run import openvino_difference, report

x = torch.tensor([[387420489, 16777217, 7, -5]], dtype=torch.int32)
found = openvino_difference(lambda x: x.relu(), (x,))
report("relu", found, 0.5)
