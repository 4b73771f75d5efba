"""Sorting, and what is found by it: all by the kernel of topk, which is not stable.

topk orders the values. Equal ones are then ordered by their places: each run of them has a number,
and number and place together are a key that no two elements share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import OpOverload

_ATEN = torch.ops.aten
_Tensor = torch.Tensor
_Pair = tuple[_Tensor, _Tensor]


def _sort_stable(
    x: _Tensor, *, stable: bool | None = False, dim: int = -1, descending: bool = False
) -> _Pair:
    return _sort(x, dim, descending)


def _sort(x: _Tensor, dim: int = -1, descending: bool = False) -> _Pair:
    """Sorts, and keeps the order of equal elements. NaN is larger than all others."""
    if x.dim() == 0:
        return _of_scalar(x)
    dim %= x.dim()
    if x.dtype == torch.bool:
        values, places = _sort(x.to(torch.uint8), dim, descending)
        return values.to(torch.bool), places
    size = x.shape[dim]
    if isinstance(size, int) and size <= 1:
        return x.clone(), torch.zeros(x.shape, dtype=torch.int64)
    values, places = torch.topk(x, size, dim, descending)
    behind, before = values.narrow(dim, 1, size - 1), values.narrow(dim, 0, size - 1)
    starts = behind != before
    if x.is_floating_point():
        starts = starts & ~(torch.isnan(behind) & torch.isnan(before))
    first = torch.zeros_like(places.narrow(dim, 0, 1))
    runs = torch.cat([first, torch.cumsum(starts.to(torch.int64), dim)], dim)
    keys, _ = torch.topk(runs * size + places, size, dim, False)
    places = keys - torch.div(keys, size, rounding_mode="floor") * size
    return torch.gather(x, dim, places), places


def _of_scalar(x: _Tensor) -> _Pair:
    return x.clone(), torch.zeros((), dtype=torch.int64)


def _pair(value: _Tensor, place: _Tensor, dim: int, keepdim: bool) -> _Pair:
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def _argsort_stable(
    x: _Tensor, *, stable: bool, dim: int = -1, descending: bool = False
) -> _Tensor:
    return _sort(x, dim, descending)[1]


def _at(x: _Tensor, dim: int, place: Any, keepdim: bool) -> _Tensor:
    found = x.narrow(dim, place, 1)
    return found if keepdim else found.squeeze(dim)


def _kthvalue(x: _Tensor, k: int, dim: int = -1, keepdim: bool = False) -> _Pair:
    if x.dim() == 0:
        return _of_scalar(x)
    dim %= x.dim()
    values, places = _sort(x, dim)
    return _at(values, dim, k - 1, keepdim), _at(places, dim, k - 1, keepdim)


def _median_dim(x: _Tensor, dim: int, keepdim: bool = False) -> _Pair:
    """The lower one of two in the middle; NaN, if there is one."""
    if x.dim() == 0:
        return _of_scalar(x)
    dim %= x.dim()
    values, places = _sort(x, dim)
    middle = (x.shape[dim] - 1) // 2
    value, place = _at(values, dim, middle, True), _at(places, dim, middle, True)
    if x.is_floating_point():
        is_nan = torch.isnan(x)
        has_nan = is_nan.any(dim, keepdim=True)
        first = torch.argmax(is_nan.to(x.dtype), dim, keepdim=True)
        value = torch.where(has_nan, torch.nan, value)
        place = torch.where(has_nan, first, place)
    return _pair(value, place, dim, keepdim)


def _nanmedian_dim(x: _Tensor, dim: int, keepdim: bool = False) -> _Pair:
    """The lower one in the middle of those that are numbers."""
    if x.dim() == 0:
        return _of_scalar(x)
    dim %= x.dim()
    if not x.is_floating_point():
        return _median_dim(x, dim, keepdim)
    values, places = _sort(x, dim)
    numbers = torch.sum(~torch.isnan(x), dim, keepdim=True, dtype=torch.int64)
    middle = torch.div(torch.clamp(numbers - 1, min=0), 2, rounding_mode="floor")
    value, place = torch.gather(values, dim, middle), torch.gather(places, dim, middle)
    return _pair(value, place, dim, keepdim)


def _median(x: _Tensor) -> _Tensor:
    return _median_dim(x.reshape(-1), 0)[0]


def _nanmedian(x: _Tensor) -> _Tensor:
    return _nanmedian_dim(x.reshape(-1), 0)[0]


def _mode(x: _Tensor, dim: int = -1, keepdim: bool = False) -> _Pair:
    """The most frequent value, of equally frequent ones the smallest; the last place of it."""
    if x.dim() == 0:
        return _of_scalar(x)
    dim %= x.dim()
    values, places = _sort(x, dim)
    # An element's run ends there, the longer the later: the first longest one is the smallest.
    equal = values.unsqueeze(dim) == values.unsqueeze(dim + 1)
    counts = torch.sum(equal, dim, dtype=torch.int64)
    size = x.shape[dim]
    order = torch.arange(size, 0, -1).view([-1] + [1] * (x.dim() - 1 - dim))
    best = torch.argmax(counts * (size + 1) + order, dim, keepdim=True)
    last = best + torch.gather(counts, dim, best) - 1
    value, place = torch.gather(values, dim, last), torch.gather(places, dim, last)
    return _pair(value, place, dim, keepdim)


def _searchsorted(
    boundaries: _Tensor,
    values: _Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: _Tensor | None = None,
) -> _Tensor:
    """Counts the boundaries below each value."""
    if sorter is not None:
        boundaries = torch.gather(boundaries, -1, sorter)
    if boundaries.dim() > 1:
        boundaries = boundaries.unsqueeze(-2)
    return _below(boundaries, values, out_int32, right or side == "right")


def _searchsorted_number(
    boundaries: _Tensor,
    value: float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: _Tensor | None = None,
) -> _Tensor:
    if sorter is not None:
        boundaries = torch.gather(boundaries, -1, sorter)
    return _below(boundaries, _number(value, boundaries), out_int32, right or side == "right")


def _bucketize(
    x: _Tensor, boundaries: _Tensor, *, out_int32: bool = False, right: bool = False
) -> _Tensor:
    return _below(boundaries, x, out_int32, right)


def _bucketize_number(
    x: float, boundaries: _Tensor, *, out_int32: bool = False, right: bool = False
) -> _Tensor:
    return _below(boundaries, _number(x, boundaries), out_int32, right)


def _number(value: float, boundaries: _Tensor) -> _Tensor:
    dtype = boundaries.dtype if isinstance(value, int) else torch.get_default_dtype()
    return torch.full((), value, dtype=dtype)


def _below(boundaries: _Tensor, values: _Tensor, out_int32: bool, right: bool) -> _Tensor:
    """Counts along the last dimension; no boundary is above NaN."""
    values = values.unsqueeze(-1)
    above = boundaries > values if right else boundaries >= values
    count = torch.sum(~above, -1, dtype=torch.int64)
    return count.to(torch.int32) if out_int32 else count


def _histc(x: _Tensor, bins: int = 100, min: float = 0, max: float = 0) -> _Tensor:
    """Counts by bins of equal width; elements outside and NaN count for nothing."""
    x = x.reshape(-1)
    if (isinstance(x.shape[0], int) and x.shape[0] == 0) or min == max != 0:
        return NotImplemented
    if min == max:
        low, high = x.min(), x.max()
        is_one = (low == high).to(x.dtype)
        low, high = low - is_one, high + is_one
    else:
        low, high = min, max
    inside = (x >= low) & (x <= high)
    scaled = (torch.where(inside, x, low) - low) * bins / (high - low)
    bin_of = torch.clamp(torch.floor(scaled).to(torch.int64), max=bins - 1)
    return torch.zeros(bins, dtype=x.dtype).scatter_add(0, bin_of, inside.to(x.dtype))


TABLE: Mapping[OpOverload, Callable[..., Any]] = {
    _ATEN.sort.default: _sort,
    _ATEN.sort.stable: _sort_stable,
    _ATEN.argsort.stable: _argsort_stable,
    _ATEN.kthvalue.default: _kthvalue,
    _ATEN.median.default: _median,
    _ATEN.median.dim: _median_dim,
    _ATEN.nanmedian.default: _nanmedian,
    _ATEN.nanmedian.dim: _nanmedian_dim,
    _ATEN.mode.default: _mode,
    _ATEN.searchsorted.Tensor: _searchsorted,
    _ATEN.searchsorted.Scalar: _searchsorted_number,
    _ATEN.bucketize.Tensor: _bucketize,
    _ATEN.bucketize.Scalar: _bucketize_number,
    _ATEN.histc.default: _histc,
}
