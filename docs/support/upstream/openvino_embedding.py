"""OpenVINO gives what its memory holds for narrow embeddings. Needs openvino and nncf.

They have at most 16 numbers, and come before a layer. It shows on processors with bfloat16.
"""

import torch
import torch.nn.functional as F
from run import openvino_difference, report

torch.manual_seed(0)
table, weight = torch.randn(12, 8), torch.randn(4, 8)
found = openvino_difference(
    lambda x: F.linear(F.embedding(x, table), weight), (torch.tensor([1, 4, 2]),)
)
report("an embedding of 8 numbers", found, 1.0)
