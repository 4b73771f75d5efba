"""Layers, convolutions and windows over tensors without a dimension for the batch, or with many.

Eager takes them, and quantizers as well, whose compilers then have no operator, or another one's
dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import aten
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


def _lacks_batch(rank: int) -> Callable[[Node], bool]:
    """Tells whether what is given has the channels and what a layer moves along, no more."""

    def applies(node: Node) -> bool:
        return bool(node.args[0].meta["val"].dim() == rank + 1)  # type: ignore[union-attr]

    return applies


def _in_a_batch(operator: str) -> Callable[..., Any]:
    """The operator over a batch of one, which its results leave out again."""

    def function(x: Any, *rest: Any, **kwargs: Any) -> Any:
        import torch

        found = aten(operator)(x.unsqueeze(0), *rest, **kwargs)
        if isinstance(found, torch.Tensor):
            return found.squeeze(0)
        return tuple(each.squeeze(0) for each in found)

    return function


def _has_many_dimensions(node: Node) -> bool:
    return bool(node.args[0].meta["val"].dim() > _PICTURES)  # type: ignore[union-attr]


def _layer_of_matrices(x: Any, *rest: Any, **kwargs: Any) -> Any:
    import torch

    found = torch.nn.functional.linear(x.flatten(0, -3), *rest, **kwargs)
    return found.reshape([*x.shape[:-1], found.shape[-1]])


# Dimensions of pictures.
_PICTURES = 4
# Operators whose result is one tensor, by the dimensions that they move along.
_OPERATORS = {
    0: ("linear.default",),
    1: (
        *("adaptive_avg_pool1d.default", "avg_pool1d.default", "conv1d.default", "conv1d.padding"),
        *("conv_transpose1d.default", "max_pool1d.default"),
    ),
    2: (
        *("adaptive_avg_pool2d.default", "avg_pool2d.default", "conv2d.default", "conv2d.padding"),
        *("conv_transpose2d.input", "max_pool2d.default"),
    ),
    3: (
        *("adaptive_avg_pool3d.default", "avg_pool3d.default", "conv3d.default", "conv3d.padding"),
        *("conv_transpose3d.input", "max_pool3d.default"),
    ),
}

RULES: Mapping[str, tuple[Rule, ...]] = {
    "many_dimensions": (
        Rule(("linear.default",), _has_many_dimensions, _layer_of_matrices, whole=True),
    ),
    "no_batch": tuple(
        Rule((name,), _lacks_batch(rank), _in_a_batch(name), whole=True)
        for rank, names in _OPERATORS.items()
        for name in names
    ),
}
REASONS: Mapping[str, str] = {
    "many_dimensions": "the delegate's layers have four dimensions at most",
    "no_batch": "the lowering takes layers and windows with a dimension for the batch only",
}
