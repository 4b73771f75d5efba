"""A loss whose decomposition in torch (2.13) counts targets behind the first -1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import OpOverload

_ATEN = torch.ops.aten
_Tensor = torch.Tensor
_MEAN, _SUM = 1, 2


def _multilabel_margin(x: _Tensor, target: _Tensor, reduction: int) -> tuple[_Tensor, _Tensor]:
    """By row, target and class: how far a class that is none comes up to the target's margin."""
    rows, targets = (torch.atleast_2d(tensor) for tensor in (x, target))
    count = rows.shape[1]
    classes = torch.arange(count)
    end = torch.where(targets == -1, classes, count).amin(1, keepdim=True)
    is_valid = classes < end
    targets = torch.where(is_valid, targets, 0)
    is_target = ((targets.unsqueeze(1) == classes.unsqueeze(1)) & is_valid.unsqueeze(1)).any(2)
    margins = 1 - rows.gather(1, targets).unsqueeze(2) + rows.unsqueeze(1)
    counts = is_valid.unsqueeze(2) & ~is_target.unsqueeze(1)
    losses = torch.where(counts, torch.clamp(margins, min=0), 0.0).sum((1, 2)) / count
    if reduction == _MEAN:
        losses = losses.mean()
    elif reduction == _SUM:
        losses = losses.sum()
    else:
        losses = losses.reshape(x.shape[:-1])
    return losses, is_target.to(x.dtype).reshape(target.shape)


TABLE: Mapping[OpOverload, Callable[..., Any]] = {
    _ATEN.multilabel_margin_loss_forward.default: _multilabel_margin,
}
