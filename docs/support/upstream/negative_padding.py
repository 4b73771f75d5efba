"""The portable kernel of constant_pad_nd refuses negative padding, which eager takes as a slice."""

import torch
import torch.nn.functional as F
from run import program, report_failure

inputs = (torch.randn(3, 4),)
loaded = program(lambda x: F.pad(x, (-1, 2), value=0.5), inputs)
report_failure("pad by -1", lambda: loaded.run_method("forward", inputs))
