"""Operators at their corners: one element, no dimension named, no more elements than a correction.

ExecuTorch's kernels and delegates take most calls as eager does, and go wrong where a tensor has a
single element, or an argument says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import Node

_Rule = tuple[tuple[str, ...], "Callable[[Node], bool]", "Callable[..., Any]"]


def _argument(node: Node, place: int, name: str, default: Any = None) -> Any:
    given: Any = node.args[place] if len(node.args) > place else default
    return node.kwargs.get(name, given)


def _call(operator: str) -> Any:
    import torch

    packet, _, overload = operator.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def _adds_to_one(node: Node) -> bool:
    """Tells whether a tensor with a factor is added to a number, or to what may be one."""
    if _argument(node, 2, "alpha", 1) == 1 or not hasattr(node.args[1], "meta"):
        return False
    if not hasattr(node.args[0], "meta"):
        return True
    sizes = getattr(node.args[0].meta["val"], "shape", ())
    return all(not isinstance(size, int) or size == 1 for size in sizes)


def _sum(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    import torch

    # Eager multiplies in the type of the result.
    return x + y.to(torch.result_type(x, y)) * alpha


def _names_none(place: int) -> Callable[[Node], bool]:
    """Tells whether the list of the dimensions that are reduced is empty: eager takes all."""

    def applies(node: Node) -> bool:
        value = node.args[0].meta["val"]  # type: ignore[union-attr]
        return _argument(node, place, "dim") == [] and value.dim() > 0

    return applies


def _over_all(operator: str, place: int) -> Callable[..., Any]:
    def function(x: Any, *rest: Any, **named: Any) -> Any:
        dims = list(range(x.dim()))
        if "dim" in named or len(rest) < place:
            return _call(operator)(x, *rest, **{**named, "dim": dims})
        given = list(rest)
        given[place - 1] = dims
        return _call(operator)(x, *given, **named)

    return function


def _corrects_all(node: Node) -> bool:
    """Tells whether a variance is of several elements, and of no more than its correction."""
    shape = node.args[0].meta["val"].shape  # type: ignore[union-attr]
    dims = _argument(node, 1, "dim") or range(len(shape))
    sizes = [shape[dim] for dim in dims]
    correction = node.kwargs.get("correction")
    if correction is None or not all(isinstance(size, int) for size in sizes):
        return False
    return 1 < math.prod(sizes) <= correction


def _infinite(operator: str) -> Callable[..., Any]:
    def function(x: Any, dim: Any = None, *, correction: Any, keepdim: bool = False) -> Any:
        # Not a number where all elements are the same, as in eager.
        return _call(operator)(x, dim, correction=0, keepdim=keepdim) / 0.0

    return function


def _raises_booleans(node: Node) -> bool:
    import torch

    is_boolean = node.args[0].meta["val"].dtype == torch.bool  # type: ignore[union-attr]
    return bool(is_boolean and type(node.args[1]) is int)


def _power_of_booleans(x: Any, exponent: int) -> Any:
    import torch

    x = x.to(torch.result_type(x, exponent))
    # What is true stays 1.
    return torch.ones_like(x) if exponent == 0 else x


def _adds_whole_numbers(node: Node) -> bool:
    """Tells whether whole numbers are added along one dimension, in their own type."""
    given, result = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    dims = _argument(node, 1, "dim")
    is_whole = not given.dtype.is_floating_point and "bool" not in str(given.dtype)
    dims = [dims] if isinstance(dims, int) else dims
    return bool(is_whole and given.dtype == result.dtype and dims and len(dims) == 1)


def _sum_along(x: Any, dim: Any, keepdim: bool = False, **named: Any) -> Any:
    import torch

    [dim] = [dim] if isinstance(dim, int) else dim
    # Along two dimensions the kernel keeps the type.
    total = torch.sum(x.unsqueeze(x.dim()), [dim % x.dim(), x.dim()], True, **named).squeeze(-1)
    return total if keepdim else total.squeeze(dim)


def _is_of_one_row(node: Node) -> bool:
    target = node.args[1].meta["val"]  # type: ignore[union-attr]
    return target.dim() == 0 and _argument(node, 5, "reduction", 1) == 0


def _loss_of_one(*args: Any, **named: Any) -> Any:
    return _call("multi_margin_loss.default")(*args, **named).reshape(())


def has_statistics(node: Node) -> bool:
    """Tells whether an instance normalization goes by the means of a training."""
    return not node.args[5]


def batch_norm(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *rest: Any) -> Any:
    """The batch norm that an instance normalization by the means of a training is."""
    import torch

    epsilon = rest[2]
    return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, eps=epsilon)


# By rule: operators, when it applies, and what is computed instead.
RULES: dict[str, tuple[_Rule, ...]] = {
    "boolean_power": ((("pow.Tensor_Scalar",), _raises_booleans, _power_of_booleans),),
    "first_number": ((("add.Tensor",), _adds_to_one, _sum),),
    "no_dimension": tuple(
        ((name,), _names_none(place), _over_all(name, place))
        for name, place in (
            ("amax.default", 1),
            ("amin.default", 1),
            ("linalg_vector_norm.default", 2),
            ("mean.dim", 1),
            ("nansum.default", 1),
            ("norm.ScalarOpt_dim", 2),
            ("std.correction", 1),
            ("std.dim", 1),
            ("sum.dim_IntList", 1),
            ("var.correction", 1),
            ("var.dim", 1),
        )
    ),
    "one_loss": ((("multi_margin_loss.default",), _is_of_one_row, _loss_of_one),),
    "whole_sum": ((("nansum.default", "sum.dim_IntList"), _adds_whole_numbers, _sum_along),),
    "whole_correction": tuple(
        ((name,), _corrects_all, _infinite(name)) for name in ("std.correction", "var.correction")
    ),
}
REASONS: dict[str, str] = {
    "boolean_power": "the kernel's result has booleans, and eager's whole numbers",
    "first_number": "the kernel multiplies the single number by the factor, not the other tensor",
    "no_dimension": "delegates take no dimension for none, and eager for all",
    "one_loss": "torch's export gives it a dimension",
    "whole_sum": "the kernel adds whole numbers of one type along one dimension as 32-bit floats",
    "whole_correction": "the kernel divides by less than zero, and eager by zero",
}
