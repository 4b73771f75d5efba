"""QNN's passes turn what a softmax over channels and others read twice. Needs QNN's SDK.

They walk a set of readers: it depends on addresses, and shows in some of the tries.
"""

import torch
from run import qnn_difference, report

weight = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(0))


def scores(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A layer's scores of each pixel, and their softmax over the channels."""
    found = torch.nn.functional.conv2d(x, weight)
    return found, found.softmax(1)


x = torch.linspace(-1, 1, 75).reshape(1, 3, 5, 5)
found = max(qnn_difference(scores, (x,)) for _ in range(8))
report("softmax", found, 0.1)
