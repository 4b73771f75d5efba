"""Functions of floats, written so that no number between leaves the range of 16-bit floats.

Such floats end at 65,504, and what lies below 6e-8 is zero. Delegates that compute with them give
infinities, or numbers of the other sign, where a step of a function goes beyond that.
"""

from __future__ import annotations

import math
from typing import Any

# Exponents of e below which 16-bit floats are zero.
LOWEST = math.log(2.0**-26)
# The largest one of those floats whose power of e they hold.
HIGHEST = 11.0859375


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
    small = quotient(x, largest)
    result = torch.linalg.vector_norm(small, order or 2, dims, keepdim=True) * largest
    return result if keepdim else torch.squeeze(result, dims)


def quotient(x: Any, y: Any) -> Any:
    """x / y, of which a delegate makes a product with 1 / y, which is zero above 2**14."""
    import torch

    factor = 1 - (torch.abs(y) > 2.0**12).to(y.dtype) * (15 / 16)
    return (x * factor) / (y * factor)


def variance(operator: str) -> Any:
    """A function as `torch.var` or `torch.std`, of differences from the mean that are at most 1.

    Args:
      operator: "var" or "std".
    """

    def function(x: Any, *given: Any, keepdim: bool = False, **named: Any) -> Any:
        import torch

        # Either dimensions, or whether one is taken off the count.
        dims = given[0] if given and not isinstance(given[0], bool) else named.get("dim")
        dims = list(range(x.dim())) if not dims else [dims] if isinstance(dims, int) else dims
        unbiased = next((v for v in (*given, named.get("unbiased")) if isinstance(v, bool)), True)
        correction = named.get("correction", int(unbiased))
        correction = 1 if correction is None else correction
        keepdim = given[2] if len(given) > 2 else keepdim
        apart = x - torch.mean(x, dims, keepdim=True)
        largest = torch.amax(torch.abs(apart), dims, keepdim=True).clamp(min=2.0**-14)
        result = torch.var(quotient(apart, largest), dims, correction=correction, keepdim=True)
        result = result * largest * largest if operator == "var" else result.sqrt() * largest
        return result if keepdim else torch.squeeze(result, dims)

    return function


def soft_margin_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    """The logarithm of 1 + exp(-target * x), of exponents below zero."""
    import torch

    loss = softplus(-target * x)
    return loss if reduction == 0 else torch.mean(loss) if reduction == 1 else torch.sum(loss)


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
