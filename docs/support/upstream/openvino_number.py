"""OpenVINO fails in the first call with a single number. Needs openvino and nncf."""

import torch
from run import openvino_difference, report_failure

report_failure("mul", lambda: openvino_difference(lambda x: x * 2, (torch.tensor(3.0),)))
