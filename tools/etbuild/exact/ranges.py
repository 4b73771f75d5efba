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
# The smallest one that has all digits: processors may take smaller ones for zero.
TINY = 2.0**-14


def quotient(x: Any, y: Any) -> Any:
    """x / y, of which a delegate makes a product with 1 / y, which is zero above 2**14."""
    import torch

    factor = 1 - (torch.abs(y) > 2.0**12).to(y.dtype) * (15 / 16)
    return (x * factor) / (y * factor)


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
