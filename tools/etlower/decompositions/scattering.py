"""Writes to computed places: those of a view, and those that reduce what meets in one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

_ATEN = torch.ops.aten
_Tensor = torch.Tensor


def _diagonal_scatter(
    x: _Tensor, source: _Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> _Tensor:
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    order = [d for d in range(x.dim()) if d not in (dim1, dim2)]
    places = torch.arange(source.shape[-1])
    rows, columns = places + max(-offset, 0), places + max(offset, 0)
    front = x.permute([dim1, dim2, *order])
    last_first = [source.dim() - 1, *range(source.dim() - 1)]
    written = torch.index_put(front, [rows, columns], source.permute(last_first))
    back = [0] * x.dim()
    for place, dim in enumerate([dim1, dim2, *order]):
        back[dim] = place
    return written.permute(back)


def _as_strided_scatter(
    x: _Tensor,
    source: _Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> _Tensor:
    if not x.is_contiguous():
        return NotImplemented
    places = torch.full((), storage_offset or 0, dtype=torch.int64)
    for count, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(count) * step
    written = torch.index_put(x.reshape(-1), [places.reshape(-1)], source.reshape(-1))
    return written.view(x.shape)


def _empty(size: Sequence[int], *_: Any, dtype: torch.dtype | None = None, **__: Any) -> _Tensor:
    """Memory that nobody has written yet: zeros."""
    return torch.zeros(size, dtype=dtype)


def _new_empty(
    x: _Tensor, size: Sequence[int], *_: Any, dtype: torch.dtype | None = None, **__: Any
) -> _Tensor:
    return torch.zeros(size, dtype=dtype or x.dtype)


def _put(x: _Tensor, index: _Tensor, source: _Tensor, accumulate: bool = False) -> _Tensor:
    count = math.prod(x.shape)
    places = index.reshape(-1)
    places = torch.where(places < 0, places + count, places)
    return torch.index_put(x.reshape(-1), [places], source.reshape(-1), accumulate).view(x.shape)


# By reduction: what stands for no element, what reduces, and what joins two results.
_REDUCTIONS: Mapping[str, tuple[Callable[[torch.dtype], float], Any, Any]] = {
    "sum": (lambda dtype: 0, lambda x: torch.sum(x, -1, dtype=x.dtype), torch.add),
    "mean": (lambda dtype: 0, lambda x: torch.sum(x, -1, dtype=x.dtype), torch.add),
    "prod": (lambda dtype: 1, lambda x: torch.prod(x, -1, dtype=x.dtype), torch.mul),
    "amax": (lambda dtype: _limit(dtype, False), lambda x: torch.amax(x, -1), torch.maximum),
    "amin": (lambda dtype: _limit(dtype, True), lambda x: torch.amin(x, -1), torch.minimum),
}


def _limit(dtype: torch.dtype, largest: bool) -> float:
    if dtype.is_floating_point:
        return math.inf if largest else -math.inf
    limits = torch.iinfo(dtype)
    return limits.max if largest else limits.min


def _scatter_reduce(
    x: _Tensor, dim: int, index: _Tensor, source: _Tensor, reduce: str, *, include_self: bool = True
) -> _Tensor:
    """Compares each place with all indices, of which one dimension is reduced."""
    if x.dtype == torch.bool:
        return NotImplemented
    if x.dim() == 0:
        x, index, source = x.view(1), index.reshape(1), source.reshape(1)
        return _scatter_reduce(x, 0, index, source, reduce, include_self=include_self).view(())
    dim %= x.dim()
    for place, size in enumerate(index.shape):
        source = source.narrow(place, 0, size)
    # Of x only a corner has an index, in all dimensions but one.
    corner = x
    for place, size in enumerate(index.shape):
        if place != dim:
            corner = corner.narrow(place, 0, size)
    index, source = index.movedim(dim, -1).unsqueeze(-2), source.movedim(dim, -1).unsqueeze(-2)
    hit = index == torch.arange(x.shape[dim]).unsqueeze(-1)
    nothing, reduced, joined = _REDUCTIONS[reduce]
    result = reduced(torch.where(hit, source, nothing(x.dtype)))
    old = corner.movedim(dim, -1)
    count = torch.sum(hit, -1, dtype=torch.int64)
    value = joined(old, result) if include_self else torch.where(count > 0, result, old)
    if reduce == "mean":
        number = torch.clamp(count + int(include_self), min=1)
        number = number.to(x.dtype)
        is_float = x.is_floating_point()
        value = value / number if is_float else torch.div(value, number, rounding_mode="floor")
    return _in_corner(x, value.movedim(-1, dim), dim)


def _in_corner(x: _Tensor, corner: _Tensor, dim: int) -> _Tensor:
    """x with a corner of it replaced."""
    inner = corner
    for place in range(x.dim()):
        if place != dim:
            around = x
            for later in range(place + 1, x.dim()):
                if later != dim:
                    around = around.narrow(later, 0, corner.shape[later])
            inner = torch.slice_scatter(around, inner, place, 0, corner.shape[place])
    return inner


def _scatter(x: _Tensor, dim: int, index: _Tensor, source: _Tensor, *, reduce: str) -> _Tensor:
    names = {"add": "sum", "multiply": "prod"}
    return _scatter_reduce(x, dim, index, source, names[reduce])


def _scatter_number(x: _Tensor, dim: int, index: _Tensor, value: float, *, reduce: str) -> _Tensor:
    source = torch.full(index.shape, value, dtype=x.dtype)
    return _scatter(x, dim, index, source, reduce=reduce)


def _index_reduce(
    x: _Tensor,
    dim: int,
    index: _Tensor,
    source: _Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> _Tensor:
    if x.dim() == 0:
        x, source = x.view(1), source.reshape(1)
        return _index_reduce(x, 0, index, source, reduce, include_self=include_self).view(())
    dim %= x.dim()
    shape = [1] * x.dim()
    shape[dim] = -1
    places = index.reshape(-1).to(torch.int64).view(shape).expand(source.shape)
    return _scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


TABLE: Mapping[OpOverload, Callable[..., Any]] = {
    _ATEN.diagonal_scatter.default: _diagonal_scatter,
    _ATEN.as_strided_scatter.default: _as_strided_scatter,
    _ATEN.empty_permuted.default: _empty,
    _ATEN.empty_strided.default: _empty,
    _ATEN.new_empty_strided.default: _new_empty,
    _ATEN.put.default: _put,
    _ATEN.scatter_reduce.two: _scatter_reduce,
    _ATEN.scatter.reduce: _scatter,
    _ATEN.scatter.value_reduce: _scatter_number,
    _ATEN.index_reduce.default: _index_reduce,
}
