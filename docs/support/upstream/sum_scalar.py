"""The kernel of sum ends the process on a tensor without dimensions (and so logsumexp, norm)."""

import os
import sys

import torch
from run import program

if os.fork() == 0:
    inputs = (torch.tensor(3.0),)
    program(lambda x: x.logsumexp(0), inputs).run_method("forward", inputs)
    os._exit(0)
_, status = os.wait()
print(f"logsumexp of a number: the process ended with status {status}")
sys.exit(status == 0)
