"""The portable kernel of remainder gives whole numbers the sign of the dividend."""

import torch
from run import difference, report

report("-7 % 3 in int64", difference(lambda x: x % 3, (torch.tensor([-7, -1, 4]),)), 0.5)
