"""Filters of torchao quantization: which layers a group-wise recipe can take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass
class LayerFilter:
    """A torchao filter that leaves small layers alone and remembers why.

    Attributes:
      multiple: the columns of a layer (`in_features`) must be a multiple of this.
      also: a further condition; None: none.
      skipped: what was left alone: qualified name to reason.
      taken: qualified names of the layers that were quantized.
    """

    multiple: int
    also: Callable[[torch.nn.Module, str], bool] | None = None
    skipped: dict[str, str] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)

    def __call__(self, module: torch.nn.Module, name: str) -> bool:
        """Whether torchao may quantize this layer."""
        from torchao.quantization.quant_api import _is_linear

        if not _is_linear(module):
            return False
        columns = module.in_features
        if self.also is not None and not self.also(module, name):
            self.skipped[name] = "left out by the recipe's own filter"
        elif columns % self.multiple:
            self.skipped[name] = f"in_features = {columns} is not a multiple of {self.multiple}"
        else:
            self.taken.append(name)
            return True
        return False


def groups_fit(multiple: int) -> LayerFilter:
    """A filter for `AOQuantizationConfig` that takes the linear layers that fit.

    Args:
      multiple: columns in a group, or the step that a backend's kernels need: a layer whose
        `in_features` is not a multiple of it is left alone.

    Returns:
      The filter; the report of a program lists what it left alone.

    Example:

        AOQuantizationConfig(config, filter_fn=groups_fit(32))
    """
    return LayerFilter(multiple)
