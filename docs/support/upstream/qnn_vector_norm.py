"""QNN's norms of vectors end at 362. Needs QNN's SDK."""

import torch
from run import qnn_difference, report

found = qnn_difference(
    lambda x: torch.linalg.vector_norm(x, dim=1), (torch.tensor([[300.0, 400.0]]),)
)
report("vector_norm", found, 1.0)
