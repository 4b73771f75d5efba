"""The portable kernel of cumsum refuses a tensor without dimensions."""

import torch
from run import program, report_failure

inputs = (torch.tensor(3.0),)
loaded = program(lambda x: x.cumsum(0), inputs)
report_failure("cumsum of a number", lambda: loaded.run_method("forward", inputs))
