"""OpenVINO's partitioner takes reflection_pad2d, and pads with zeros. Needs openvino and nncf."""

import torch
import torch.nn.functional as F
from executorch.backends.openvino.partitioner import OpenvinoPartitioner
from executorch.exir.backend.backend_details import CompileSpec
from run import difference, report

torch.manual_seed(0)
found = difference(
    lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect") * 1.0,
    (torch.randn(1, 2, 9, 11),),
    [OpenvinoPartitioner([CompileSpec("device", b"CPU")])],
)
report("reflection_pad2d", found, 1e-3)
