"""The result of masked_select has room for the first input's elements, not for both broadcast."""

import torch
from run import program, report_failure

inputs = (torch.randn(4), torch.ones(3, 4, dtype=torch.bool))
loaded = program(lambda x, m: torch.masked_select(x, m), inputs)
report_failure("masked_select", lambda: loaded.run_method("forward", inputs))
