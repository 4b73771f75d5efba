"""The portable kernel of convolution refuses three dimensions, which the lowering lets through."""

import torch
from run import program, report_failure

layer = torch.nn.Conv3d(2, 3, 2).eval().requires_grad_(False)
inputs = (torch.randn(1, 2, 4, 5, 6),)
loaded = program(lambda x: torch.conv3d(x, layer.weight.detach(), layer.bias.detach()), inputs)
report_failure("conv3d", lambda: loaded.run_method("forward", inputs))
