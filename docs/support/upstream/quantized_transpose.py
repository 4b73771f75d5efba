"""XNNPACK's delegate leaves zeros in what it hands to a product of two 8-bit tensors."""

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from run import difference, report
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


class Scores(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(33, 8)

    def forward(self, x):
        y = self.layer(x)
        return y @ y.transpose(-1, -2)


torch.manual_seed(0)
inputs = (torch.randn(2, 33),)
quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
prepared = prepare_pt2e(torch.export.export(Scores().eval(), inputs).module(), quantizer)
prepared(*inputs)
found = difference(convert_pt2e(prepared), inputs, [XnnpackPartitioner()])
report("y @ y.transpose(-1, -2) in 8 bits", found, 0.1)
