"""Deep copies of modules, whatever tensors they hold."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from etexport.replaced import replaced

_T = TypeVar("_T")


def deep(value: _T, memo: dict[int, Any] | None = None) -> _T:
    """A deep copy of modules or inputs.

    torch refuses to copy tensors that it computed from parameters, which modules keep as attributes
    (the weight of `torch.nn.utils.weight_norm`); the copy has their values.

    Args:
      value: what to copy.
      memo: as for `copy.deepcopy`: what stays itself.
    """
    import torch

    original = torch.Tensor.__deepcopy__

    def copied(self: Any, known: dict[int, Any]) -> Any:
        if self.is_leaf or id(self) in known:
            return original(self, known)
        known[id(self)] = self.detach().clone()
        return known[id(self)]

    with replaced(torch.Tensor, "__deepcopy__", copied):
        return copy.deepcopy(value, memo)
