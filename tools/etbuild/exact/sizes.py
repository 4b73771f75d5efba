"""Strides, paddings and windows that are given once for all dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import argument_of, aten
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node

# Operators of which the second tensor is a kernel: their lists have a number per dimension of it.
_CONVOLUTIONS = (
    *("conv2d.default", "conv3d.default", "convolution.default"),
    *("conv_transpose2d.input", "conv_transpose3d.input"),
)
# Operators to the dimensions of their windows.
_POOLING = {"avg_pool2d.default": 2, "max_pool2d.default": 2, "max_pool2d_with_indices.default": 2}
# Before a kernel's own two.
_CHANNELS = 2


def _has_single_number(node: Node) -> bool:
    """Tells whether a list has one number for several dimensions."""
    given = (*node.args, *node.kwargs.values())
    is_single = any(isinstance(value, list | tuple) and len(value) == 1 for value in given)
    # In rows, that is one for each.
    return is_single and node.args[0].meta["val"].dim() > _CHANNELS + 1


def _pads_nothing(node: Node) -> bool:
    return bool(argument_of(node, 4, "padding", "valid") == "valid")


def _repeated(operator: str, rank: int | None = None) -> Callable[..., Any]:
    """An operator whose lists have a number per dimension; without `rank`: its kernel's."""

    def function(x: Any, *others: Any, **named: Any) -> Any:
        count = others[0].dim() - _CHANNELS if rank is None else rank

        def of_each(value: Any) -> Any:
            is_single = isinstance(value, list | tuple) and len(value) == 1
            return [*value] * count if is_single else value

        filled = {name: of_each(value) for name, value in named.items()}
        return aten(operator)(x, *map(of_each, others), **filled)

    return function


def _without_padding(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: str = "valid",
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    rank = weight.dim() - _CHANNELS
    lists = [[n] * rank if isinstance(n, int) else n for n in (stride, 0, dilation)]
    return _repeated(f"conv{rank}d.default")(x, weight, bias, *lists, groups)


_SINGLE = "single_size"
RULES: Mapping[str, tuple[Rule, ...]] = {
    _SINGLE: (
        *(Rule((name,), _has_single_number, _repeated(name), whole=True) for name in _CONVOLUTIONS),
        *(
            Rule((name,), _has_single_number, _repeated(name, rank), whole=True)
            for name, rank in _POOLING.items()
        ),
        Rule(("conv2d.padding", "conv3d.padding"), _pads_nothing, _without_padding, whole=True),
    ),
}
REASONS: Mapping[str, str] = {
    _SINGLE: "delegates want strides, paddings and windows of each dimension",
}
