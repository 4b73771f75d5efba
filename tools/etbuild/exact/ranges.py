"""Functions of floats, written so that no number between leaves the range of 16-bit floats.

Such floats end at 65,504, and what lies below 6e-8 is zero. Delegates that compute with them give
infinities, or numbers of the other sign, where a step of a function goes beyond that.
"""

from __future__ import annotations

import math
from typing import Any

# Exponents of e below which 16-bit floats are zero.
LOWEST = math.log(2.0**-26)


def is_written(order: Any) -> bool:
    """Tells whether a norm adds powers and takes their root, or counts: no sum, no maximum."""
    return order is None or order == 0 or (math.isfinite(order) and order > 1)


def norm(
    x: Any, order: float | None = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """`torch.linalg.vector_norm` of numbers divided by the largest; of order 0, a count."""
    import torch

    x = x if dtype is None else x.to(dtype)
    dims = list(range(x.dim())) if dim is None or dim == [] else dim
    if order == 0:
        return torch.sum((x != 0).to(x.dtype), dims, keepdim=keepdim)
    largest = torch.amax(torch.abs(x), dims, keepdim=True).clamp(min=2.0**-14)
    result = torch.linalg.vector_norm(x / largest, order or 2, dims, keepdim=True) * largest
    return result if keepdim else torch.squeeze(result, dims)


def erfc(x: Any) -> Any:
    """`torch.erfc`, whose own steps have numbers of any size."""
    import torch

    return 1 - torch.erf(x)


def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    """log(1 + exp(x)), of exponents below zero; x itself above the threshold."""
    import torch

    scaled = x if beta == 1 else x * beta
    result = torch.relu(scaled) + torch.log1p(torch.exp(-torch.abs(scaled)))
    result = result if beta == 1 else result / beta
    # Beyond, floats hold no difference.
    return result if threshold > 15 else torch.where(scaled > threshold, x, result)


def mish(x: Any) -> Any:
    """x * tanh(softplus(x))."""
    import torch

    return x * torch.tanh(softplus(x))


def power_of_number(base: float, x: Any) -> Any:
    """`torch.pow(base, x)` of exponents that are not so small that the result is zero."""
    import torch

    bound = LOWEST / math.log(base)
    clamped = torch.clamp(x, min=bound) if base > 1 else torch.clamp(x, max=bound)
    return torch.pow(base, clamped)
