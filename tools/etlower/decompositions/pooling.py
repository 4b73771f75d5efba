"""Pooling over windows of any size and of three dimensions, one dimension after the other.

An average is a sum divided by a number that the shapes give, and both are products over the
dimensions. The first maximum of a box is the first maximum, over the planes, of each plane's first.
Sizes must be known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

_ATEN = torch.ops.aten
_Tensor = torch.Tensor


@dataclass(frozen=True)
class _Windows:
    """Windows of a dimension: where each starts and ends, and the width of the widest."""

    starts: _Tensor
    ends: _Tensor
    width: int


def _known(x: _Tensor) -> bool:
    return all(isinstance(size, int) and size > 0 for size in x.shape)


def _three(amounts: Sequence[int]) -> list[int]:
    return list(amounts) * 3 if len(amounts) == 1 else list(amounts)


def _adaptive(size: int, count: int) -> _Windows:
    numbers = torch.arange(count)
    starts = torch.div(numbers * size, count, rounding_mode="floor")
    ends = torch.div((numbers + 1) * size + (count - 1), count, rounding_mode="floor")
    width = max(-(-(n + 1) * size // count) - n * size // count for n in range(count))
    return _Windows(starts, ends, width)


def _count(size: int, span: int, stride: int, padding: int, ceil_mode: bool) -> int:
    """Number of windows; those of ceil_mode may end outside, but start inside or before."""
    reach = size + 2 * padding - span
    count = (-(-reach // stride) if ceil_mode else reach // stride) + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


def _gathered(x: _Tensor, dim: int, places: _Tensor) -> _Tensor:
    """Windows of a dimension as two: their number, and their elements' number."""
    taken = torch.index_select(x, dim, places.reshape(-1))
    return taken.view([*x.shape[:dim], *places.shape, *x.shape[dim + 1 :]])


def _max_over(x: _Tensor, origins: _Tensor, dim: int, places: _Tensor) -> tuple[_Tensor, _Tensor]:
    """Maxima of windows of a dimension, and what `origins` has where they are."""
    values, best = torch.max(_gathered(x, dim, places), dim + 1, keepdim=True)
    found = torch.gather(_gathered(origins, dim, places), dim + 1, best)
    return values.squeeze(dim + 1), found.squeeze(dim + 1)


def _rows(sizes: Sequence[int], shape: Sequence[int]) -> _Tensor:
    """Numbers of elements in the last dimensions."""
    return torch.arange(math.prod(sizes)).view(list(sizes)).expand(list(shape)).clone()


def _adaptive_max_pool(x: _Tensor, output_size: Sequence[int]) -> tuple[_Tensor, _Tensor]:
    if not _known(x) or 0 in output_size:
        return NotImplemented
    dims = len(output_size)
    origins = _rows(x.shape[-dims:], x.shape)
    for number in reversed(range(dims)):
        dim = x.dim() - dims + number
        windows = _adaptive(x.shape[dim], output_size[number])
        # The last element again, in those that are less wide, changes no maximum.
        places = windows.starts.unsqueeze(-1) + torch.arange(windows.width)
        places = torch.minimum(places, windows.ends.unsqueeze(-1) - 1)
        x, origins = _max_over(x, origins, dim, places)
    return x, origins


def _max_pool3d(
    x: _Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[_Tensor, _Tensor]:
    if not _known(x):
        return NotImplemented
    lowest = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    kernel, padding, dilation = map(_three, (kernel_size, padding, dilation))
    stride = _three(stride) if stride else kernel
    origins = _rows(x.shape[-3:], x.shape)
    for number in reversed(range(3)):
        k, s, p, d = kernel[number], stride[number], padding[number], dilation[number]
        dim = x.dim() - 3 + number
        span = d * (k - 1) + 1
        count = _count(x.shape[dim], span, s, p, ceil_mode)
        after = max((count - 1) * s + span - x.shape[dim] - p, 0)
        if p or after:
            amounts = [0, 0] * (2 - number) + [p, after]
            x = torch.constant_pad_nd(x, amounts, lowest)
            origins = torch.constant_pad_nd(origins, amounts, 0)
        places = (torch.arange(count) * s).unsqueeze(-1) + torch.arange(k) * d
        x, origins = _max_over(x, origins, dim, places)
    return x, origins


def _sums(x: _Tensor, windows: Sequence[_Windows]) -> _Tensor:
    """Sums of windows of the last dimensions, into which nothing counts that is outside.

    A product with zeros and ones would make NaN of an infinity outside.
    """
    for number, each in enumerate(windows):
        dim = x.dim() - len(windows) + number
        places = each.starts.unsqueeze(-1) + torch.arange(each.width)
        inside = places < each.ends.unsqueeze(-1)
        taken = _gathered(x, dim, torch.clamp(places, max=x.shape[dim] - 1))
        mask = inside.view([*inside.shape] + [1] * (x.dim() - dim - 1))
        x = torch.sum(torch.where(mask, taken, 0), dim + 1, dtype=x.dtype)
    return x


def _adaptive_avg_pool3d(x: _Tensor, output_size: Sequence[int]) -> _Tensor:
    if not _known(x) or not x.is_floating_point() or 0 in output_size:
        return NotImplemented
    sizes = zip(x.shape[-3:], output_size, strict=True)
    windows = [_adaptive(size, count) for size, count in sizes]
    return _averages(x, windows, [each.ends - each.starts for each in windows])


def _avg_pool3d(
    x: _Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> _Tensor:
    if not _known(x) or not x.is_floating_point():
        return NotImplemented
    kernel, padding = _three(kernel_size), _three(padding)
    stride = _three(stride) if stride else kernel
    windows, counts = [], []
    for size, k, s, p in zip(x.shape[-3:], kernel, stride, padding, strict=True):
        starts = torch.arange(_count(size, k, s, p, ceil_mode)) * s - p
        each = _Windows(torch.clamp(starts, min=0), torch.clamp(starts + k, max=size), k)
        windows.append(each)
        padded = torch.clamp(starts + k, max=size + p) - starts
        counts.append(padded if count_include_pad else each.ends - each.starts)
    if divisor_override is not None:
        return _sums(x, windows) / divisor_override
    return _averages(x, windows, counts)


def _averages(x: _Tensor, windows: Sequence[_Windows], counts: Sequence[_Tensor]) -> _Tensor:
    depth, height, width = (each.to(x.dtype) for each in counts)
    return _sums(x, windows) / (depth.view(-1, 1, 1) * height.view(-1, 1) * width)


TABLE: Mapping[OpOverload, Callable[..., Any]] = {
    _ATEN.adaptive_max_pool2d.default: _adaptive_max_pool,
    _ATEN.adaptive_max_pool3d.default: _adaptive_max_pool,
    _ATEN.max_pool3d_with_indices.default: _max_pool3d,
    _ATEN._adaptive_avg_pool3d.default: _adaptive_avg_pool3d,
    _ATEN.avg_pool3d.default: _avg_pool3d,
}
