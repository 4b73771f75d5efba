"""torch's decomposition of multilabel_margin_loss counts targets behind the first -1."""

import torch
import torch.nn.functional as F
from run import difference, report

inputs = (torch.tensor([[0.5, -1.0, 2.0, 0.0]]), torch.tensor([[1, -1, 0, 0]]))
report("multilabel_margin_loss", difference(F.multilabel_margin_loss, inputs), 1e-3)
