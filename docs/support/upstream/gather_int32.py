"""The portable kernel of gather refuses 32-bit indices, which eager and the exporter take."""

import torch
from run import program, report_failure

inputs = (torch.randn(3, 4), torch.tensor([[0, 1]], dtype=torch.int32))
loaded = program(lambda x, i: x.gather(1, i), inputs)
report_failure("gather by int32", lambda: loaded.run_method("forward", inputs))
