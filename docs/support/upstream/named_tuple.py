"""topk, returned as it is, can't be emitted: its named tuple has no serialization name."""

import torch
from run import program, report_failure

report_failure("topk as an output", lambda: program(lambda x: torch.topk(x, 2), (torch.randn(5),)))
