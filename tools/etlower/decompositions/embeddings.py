"""Sums, means and maxima of the rows that an embedding has for the words of each bag.

A bag is a range of positions. Which positions are in it is a matrix of zeros and ones, and a sum
over a bag is its product with the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import OpOverload

_ATEN = torch.ops.aten
_Tensor = torch.Tensor
_SUM, _MEAN, _MAX = range(3)


def _embedding_bag(
    weight: _Tensor,
    indices: _Tensor,
    offsets: _Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: _Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[_Tensor, _Tensor, _Tensor, _Tensor]:
    """The bags' rows; the operator's other results are for its gradient."""
    count = indices.shape[0]
    if not isinstance(count, int) or not count:
        return NotImplemented
    indices, offsets = indices.to(torch.int64), offsets.to(torch.int64)
    inside = _inside(offsets, count, include_last_offset)
    counted = inside
    if include_last_offset:
        # Eager's last bag ends with the indices all the same, but for sums without a padding.
        counted = _inside(offsets[:-1], count, False)
        inside = counted if mode == _MAX or padding_idx >= 0 else inside
    if padding_idx >= 0:
        inside = counted = inside & (indices != padding_idx)
    rows = torch.index_select(weight, 0, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    sizes = counted.sum(1)
    if mode == _MAX:
        best = torch.where(inside.unsqueeze(2), rows, -math.inf).amax(1)
        bags = torch.where((sizes == 0).unsqueeze(1), 0.0, best).to(weight.dtype)
    else:
        bags = inside.to(weight.dtype) @ rows
    if mode == _MEAN:
        bags = bags / torch.clamp(sizes, min=1).unsqueeze(1)
    return bags, offsets.clone(), sizes, offsets.clone()


def _inside(offsets: _Tensor, count: int, has_end: bool) -> _Tensor:
    """By bag and position, whether it is in the bag."""
    starts = offsets[:-1] if has_end else offsets
    ends = offsets[1:] if has_end else torch.cat([offsets[1:], torch.full((1,), count)])
    places = torch.arange(count)
    return (places >= starts.unsqueeze(1)) & (places < ends.unsqueeze(1))


TABLE: Mapping[OpOverload, Callable[..., Any]] = {
    _ATEN._embedding_bag.default: _embedding_bag,
    _ATEN._embedding_bag_forward_only.default: _embedding_bag,
}
