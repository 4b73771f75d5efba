"""16-bit floats: numbers that they do not hold, and steps of functions that leave their range."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from etbuild.exact import ranges
from etbuild.exact.nodes import always, aten, dtype_of, gives_half
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


def _gives_floats(node: Node) -> bool:
    return bool(dtype_of(node).is_floating_point)


def _is_positive(node: Node) -> bool:
    """Tells whether a power is of a number above zero, and a fraction."""
    base = node.args[0]
    is_float = node.meta["val"].dtype.is_floating_point
    return bool(is_float and isinstance(base, int | float) and 0 < base != 1)


def _is_product(node: Node) -> bool:
    """Tells whether a power of floats is a product of a few factors."""
    exponent = node.args[1] if len(node.args) > 1 else 2
    is_float = node.args[0].meta["val"].dtype.is_floating_point
    return bool(is_float and exponent in range(2, _MOST_FACTORS + 1))


def _product(x: Any, exponent: float = 2) -> Any:
    square = x * x
    product = square if exponent % 2 == 0 else square * x
    for _ in range(int(exponent) // 2 - 1):
        product = product * square
    return product


def _is_divided_by_few(node: Node) -> bool:
    """Tells whether floats are divided by a tensor that has fewer, or that repeats some."""
    if not _gives_floats(node) or not all(hasattr(each, "meta") for each in node.args[:2]):
        return False
    x, y = node.args[:2]
    repeats = str(y.target).startswith("aten.expand")  # type: ignore[union-attr]
    return bool(repeats or x.meta["val"].shape != y.meta["val"].shape)  # type: ignore[union-attr]


def _gives_half_of_numbers(node: Node) -> bool:
    """Tells whether a 16-bit number and one of the model are the only operands."""
    has_number = any(type(value) in (int, float) for value in node.args)
    return has_number and gives_half(node) and node.meta["val"].dim() == 0


def _has_lost_number(node: Node) -> bool:
    """Tells whether a 16-bit float is beside a number that it holds as infinity or inexactly."""
    import torch

    if dtype_of(node) != torch.float16:
        return False
    limits = torch.finfo(torch.float16)
    numbers = [abs(value) for value in node.args if type(value) in (int, float)]
    finite = [number for number in numbers if math.isfinite(number)]
    small = [number for number in finite if number < limits.tiny]
    return any(number > limits.max for number in finite) or any(
        _rounded(number, torch.float16) != number for number in small
    )


def _rounded(number: float, dtype: Any) -> float:
    """The number in a type, beyond whose largest it is infinite."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        return float(torch.tensor(float(number)).to(dtype).item())


def _compares_half(node: Node) -> bool:
    import torch

    x, number = node.args
    dtype = x.meta["val"].dtype
    is_half = dtype in (torch.float16, torch.bfloat16)
    return is_half and type(number) in (int, float) and _rounded(number, dtype) != number


def _with_rounded(operator: str) -> Callable[..., Any]:
    def function(x: Any, number: float) -> Any:
        return aten(operator)(x, _rounded(number, x.dtype))

    return function


def _in_single(operator: str) -> Callable[..., Any]:
    """A function that computes in 32 bits, as the eager kernels do, and rounds its result."""

    def function(*args: Any, **kwargs: Any) -> Any:
        import torch

        halves = (torch.float16, torch.bfloat16)
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        dtype = next(value.dtype for value in tensors if value.dtype in halves)
        given = [
            value.float() if isinstance(value, torch.Tensor) and value.dtype in halves else value
            for value in args
        ]
        return aten(operator)(*given, **kwargs).to(dtype)

    return function


_BINARY = ("add.Tensor", "div.Tensor", "mul.Tensor", "sub.Tensor")
_COMPARISONS = tuple(f"{name}.Scalar" for name in ("eq", "ge", "gt", "le", "lt", "ne"))
_HALVES = ("angle.default", "i0.default", "native_dropout_backward.default")
_PRODUCTS = (
    *("div.Scalar", "div.Scalar_mode", "div.Tensor", "div.Tensor_mode", "floor_divide.Scalar"),
    *("floor_divide.default", "mul.Scalar", "mul.Tensor"),
)
_MOST_FACTORS = 16

RULES: Mapping[str, tuple[Rule, ...]] = {
    "half_comparison": tuple(
        Rule((name,), _compares_half, _with_rounded(name)) for name in _COMPARISONS
    ),
    "half_number": tuple(Rule((name,), _has_lost_number, _in_single(name)) for name in _PRODUCTS),
    "half_quotient": (Rule(("div.Tensor",), _is_divided_by_few, ranges.quotient),),
    "half_range": (
        Rule(("erfc.default", "special_erfc.default"), always, ranges.erfc),
        Rule(("mish.default",), always, ranges.mish),
        Rule(("pow.Scalar",), _is_positive, ranges.power_of_number),
        Rule(("pow.Tensor_Scalar", "square.default"), _is_product, _product),
        Rule(("soft_margin_loss.default",), _gives_floats, ranges.soft_margin_loss),
        Rule(("softplus.default",), always, ranges.softplus),
    ),
    "half_result": (
        *(Rule((name,), gives_half, _in_single(name)) for name in _HALVES),
        *(Rule((name,), _gives_half_of_numbers, _in_single(name)) for name in _BINARY),
    ),
}
REASONS: Mapping[str, str] = {
    "half_comparison": "the kernels compare with the number before it is rounded to 16 bits",
    "half_number": "upstream makes it one of 16 bits, which is infinite, or has few digits",
    "half_quotient": "the delegate multiplies by a reciprocal that may be zero in 16 bits",
    "half_range": "a step of it leaves the range of the delegate's 16-bit floats",
    "half_result": "upstream makes its numbers 32-bit tensors, so the result would have 32 bits",
}
