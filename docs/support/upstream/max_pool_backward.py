"""The portable kernel of max_pool2d's gradient adds to memory that nobody has set to zero."""

import torch
from run import program, report

x, g = torch.randn(1, 1, 6, 6), torch.ones(1, 1, 2, 2)


def gradient(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    _, places = torch.ops.aten.max_pool2d_with_indices(x, [3, 3])
    return torch.ops.aten.max_pool2d_with_indices_backward(
        g, x, [3, 3], [3, 3], [0, 0], [1, 1], False, places
    )


loaded = program(gradient, (x, g))
want = gradient(x, g)
# The second call finds what the first has left.
for _ in range(2):
    [got] = loaded.run_method("forward", (x, g))
report("max_pool2d_with_indices_backward", float((got - want).abs().max()), 1e-3)
