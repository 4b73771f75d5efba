"""The portable kernel of sign gives NaN for NaN, where eager gives 0."""

import torch
from run import difference, report

x = torch.tensor([1.0, torch.nan])
report("sign of NaN", difference(torch.sign, (x,)), 0.5)
