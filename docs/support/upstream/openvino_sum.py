"""OpenVINO's sums in another type fail in the first call. Needs openvino and nncf."""

import torch
from run import openvino_difference, report_failure

report_failure(
    "sum",
    lambda: openvino_difference(
        lambda x: x.sum(dtype=torch.int64), (torch.tensor([1, 2], dtype=torch.int32),)
    ),
)
