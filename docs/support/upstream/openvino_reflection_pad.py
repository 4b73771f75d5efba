"""OpenVINO's partitioner takes reflection_pad2d, and pads with zeros. Needs openvino and nncf."""

import torch
import torch.nn.functional as F
from run import openvino_difference, report

torch.manual_seed(0)
found = openvino_difference(
    lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect") * 1.0, (torch.randn(1, 2, 9, 11),)
)
report("reflection_pad2d", found, 1e-3)
