"""Cumulative products and extremes, in as many steps as the size has binary digits.

Step k combines each element with that of 2 ** k places before it, so that after it an element
stands for 2 ** (k + 1) of them. Sizes may be dynamic: the bound counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from executorch.exir.sym_util import eval_upper_bound
from torch._ops import OpOverload

_ATEN = torch.ops.aten
_Tensor = torch.Tensor
# A size without a bound has the largest integer.
_MOST = 1 << 32


def _distances(x: _Tensor, dim: int) -> Iterator[int] | None:
    """1, 2, 4, …, below the size of a dimension; None: nobody knows how large it becomes."""
    most = eval_upper_bound(x.shape[dim])
    if most is None or most > _MOST:
        return None
    return iter([1 << n for n in range(max(int(most) - 1, 0).bit_length())])


def _moved(x: _Tensor, dim: int, distance: int, fill: float) -> _Tensor:
    """The elements of so many places before; `fill` where there is none."""
    amounts = [0, 0] * (x.dim() - 1 - dim) + [distance, 0]
    return torch.constant_pad_nd(x, amounts, fill).narrow(dim, 0, x.shape[dim])


def _moved_or_own(x: _Tensor, dim: int, distance: int, fill: float) -> _Tensor:
    """The elements of so many places before, or their own; `fill` where the size varies.

    Delegates compare infinities wrong.
    """
    size = x.shape[dim]
    if not isinstance(size, int):
        return _moved(x, dim, distance, fill)
    return torch.cat([x.narrow(dim, 0, distance), x.narrow(dim, 0, size - distance)], dim)


def _scanned(
    x: _Tensor, dim: int, fill: float, joined: Callable[[_Tensor, _Tensor], _Tensor]
) -> _Tensor:
    """Joins each element with all before it; `fill` is what changes nothing."""
    if x.dim() == 0:
        return x.clone()
    dim %= x.dim()
    distances = _distances(x, dim)
    if distances is None:
        return NotImplemented
    result = x.clone()
    for distance in distances:
        result = joined(result, _moved(result, dim, distance, fill))
    return result


def _cumprod(x: _Tensor, dim: int, *, dtype: torch.dtype | None = None) -> _Tensor:
    x = x.to(dtype or (x.dtype if x.is_floating_point() else torch.int64))
    return _scanned(x, dim, 1, torch.mul)


def _logcumsumexp(x: _Tensor, dim: int) -> _Tensor:
    def joined(here: _Tensor, before: _Tensor) -> _Tensor:
        largest = torch.maximum(here, before)
        base = torch.where(torch.isinf(largest), 0.0, largest)
        return torch.log(torch.exp(here - base) + torch.exp(before - base)) + base

    return _scanned(x, dim, -math.inf, joined)


def _extreme(largest: bool) -> Callable[..., tuple[_Tensor, _Tensor]]:
    def extreme(x: _Tensor, dim: int) -> tuple[_Tensor, _Tensor]:
        if x.dim() == 0:
            return x.clone(), torch.zeros((), dtype=torch.int64)
        dim %= x.dim()
        distances = _distances(x, dim)
        if distances is None or x.dtype == torch.bool:
            return NotImplemented
        shape = [1] * x.dim()
        shape[dim] = -1
        places = torch.arange(x.shape[dim]).view(shape).expand(x.shape).clone()
        result = x.clone()
        for distance in distances:
            before = _moved_or_own(result, dim, distance, _identity(x.dtype, largest))
            places_before = _moved_or_own(places, dim, distance, 0)
            # Of equal ones the last, and after a NaN only another one.
            later = result >= before if largest else result <= before
            if x.is_floating_point():
                later = torch.isnan(result) | (later & ~torch.isnan(before))
            result = torch.where(later, result, before)
            places = torch.where(later, places, places_before)
        return result, places

    return extreme


def _identity(dtype: torch.dtype, largest: bool) -> float:
    if dtype.is_floating_point:
        return -math.inf if largest else math.inf
    limits = torch.iinfo(dtype)
    return limits.min if largest else limits.max


TABLE: Mapping[OpOverload, Callable[..., Any]] = {
    _ATEN.cumprod.default: _cumprod,
    _ATEN.cummax.default: _extreme(largest=True),
    _ATEN.cummin.default: _extreme(largest=False),
    _ATEN.logcumsumexp.default: _logcumsumexp,
}
