"""QNN's pass on windows fails where they overlap. Needs QNN's SDK."""

import torch
import torch.nn.functional as F
from run import qnn_difference, report_failure

report_failure(
    "unfold", lambda: qnn_difference(lambda x: F.unfold(x, 3), (torch.ones(1, 2, 5, 5),))
)
