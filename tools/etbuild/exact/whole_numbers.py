"""Whole numbers and booleans: powers, remainders, shifts of bits and sums, which are exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import always, argument_of, aten, dtype_of, gives_half, in_common_type
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


def _is_whole(node: Node) -> bool:
    return not dtype_of(node).is_floating_point


def _is_double(node: Node) -> bool:
    import torch

    return dtype_of(node) == torch.float64


def _remainder(x: Any, y: Any) -> Any:
    import torch

    if isinstance(y, int) and not x.dtype.is_signed and x.dtype != torch.bool:
        return torch.fmod(x, y % 2 ** (8 * x.dtype.itemsize))
    x, y = in_common_type(x, y)
    rest = torch.fmod(x, y)
    return torch.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _remainder_of_number(number: Any, y: Any) -> Any:
    import torch

    dtype = torch.result_type(number, y)
    x = torch.full((), _wrapped(number, dtype) if _is_wide(number, dtype) else number, dtype=dtype)
    is_right = dtype.is_floating_point and dtype != torch.float64
    return torch.remainder(x, y.to(dtype)) if is_right else _remainder(x, y)


def _is_wide(number: Any, dtype: Any) -> bool:
    import torch

    return type(number) is int and not dtype.is_floating_point and dtype != torch.bool


def _may_floor_zero(node: Node) -> bool:
    """Tells whether floats are divided by a tensor, and rounded down."""
    floors = _is_floor(node) or node.kwargs.get("rounding_mode") == "floor"
    return floors and dtype_of(node).is_floating_point and hasattr(node.args[1], "meta")


def _is_floor(node: Node) -> bool:
    return "floor_divide" in str(node.target)


def _floor_division(x: Any, y: Any, *, rounding_mode: str = "floor") -> Any:
    import torch

    x, y = in_common_type(x, y)
    return torch.where(y == 0, x / y, torch.div(x, y, rounding_mode=rounding_mode))


def _divides_half(node: Node) -> bool:
    """Tells whether 16-bit floats are divided by a single number, and rounded to a whole one.

    Eager divides by the number as it is; the kernels round it to 16 bits, or the quotient.
    """
    if not gives_half(node) or not (_is_floor(node) or node.kwargs.get("rounding_mode")):
        return False
    value = getattr(node.args[1], "meta", {}).get("val", node.args[1])
    is_single = not hasattr(value, "dim") or value.dim() == 0
    return is_single and getattr(value, "dtype", None) != dtype_of(node)


def _half_quotient(x: Any, y: Any, *, rounding_mode: str = "floor") -> Any:
    import torch

    single = y.float() if isinstance(y, torch.Tensor) else torch.full((), float(y))
    return _floor_division(x.float(), single, rounding_mode=rounding_mode).to(x.dtype)


def _has_other_number(node: Node) -> bool:
    """Tells whether bytes are computed with a number that is none of theirs."""
    import torch

    numbers = [value for value in (*node.args, *node.kwargs.values()) if type(value) is int]
    return dtype_of(node) == torch.uint8 and any(not 0 <= number < 256 for number in numbers)


def _with_bytes(operator: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        def wrapped(value: Any) -> Any:
            return value % 256 if type(value) is int else value

        named = {name: wrapped(value) for name, value in kwargs.items()}
        return aten(operator)(*map(wrapped, args), **named)

    return function


def _shifts_far(node: Node) -> bool:
    """Tells whether the number of bits may be one that is not from 0 to those of the type."""
    import torch

    bits, dtype = node.args[1], dtype_of(node)
    is_known = isinstance(bits, int) and 0 <= bits < 8 * dtype.itemsize
    is_whole = not dtype.is_floating_point and dtype != torch.bool
    return is_whole and not is_known and not isinstance(bits, float)


def _shift(operator: str) -> Callable[..., Any]:
    is_left = operator.startswith(("bitwise_left", "__lshift__"))

    def function(x: Any, bits: Any) -> Any:
        import torch

        dtype = torch.result_type(x, bits)
        largest = 8 * dtype.itemsize - 1
        x = x.to(dtype)
        # All bits are the sign's, or zeros.
        has_sign = dtype.is_signed and not is_left
        far = torch.bitwise_right_shift(x, largest) if has_sign else torch.zeros_like(x)
        if isinstance(bits, int):
            return far.clone()
        bits = bits.to(dtype)
        # Not `clamp`: a delegate's takes floats only.
        is_far = (bits < 0) | (bits > largest)
        shift = torch.bitwise_left_shift if is_left else torch.bitwise_right_shift
        near = shift(x, torch.where(is_far, 0, bits))
        return torch.where(is_far, far, near)

    return function


def _is_whole_power(node: Node) -> bool:
    import torch

    exponent = argument_of(node, 1, "exponent", 0)
    whole = not dtype_of(node).is_floating_point and dtype_of(node) != torch.bool
    return whole and (not isinstance(exponent, int) or exponent > 1)


def _integer_power(x: Any, exponent: Any) -> Any:
    """A product of the squares that the exponent's binary digits select, which wraps as eager's."""
    import torch

    if isinstance(exponent, int):
        return _known_power(x, exponent)
    dtype = torch.result_type(x, exponent)
    x = torch.full((), _wrapped(x, dtype), dtype=dtype) if isinstance(x, int) else x.to(dtype)
    exponent, has_inverse = exponent.to(dtype), x.abs() == 1
    # From 2 ** 64 on all but odd numbers wrap to 0, and of those 1 and -1 matter.
    digits = torch.where(exponent > 127, 126 + (exponent & 1), exponent)
    result = torch.where((digits & 1) == 1, x, 1)
    for place in range(1, 7):
        x = x * x
        result = torch.where((digits & (1 << place)) != 0, result * x, result)
    return torch.where((exponent >= 0) | has_inverse, result, 0)


def _wrapped(number: int, dtype: Any) -> int:
    """The number of a type of whole numbers that has the same last bits."""
    import torch

    limits = torch.iinfo(dtype)
    return (number - limits.min) % 2**limits.bits + limits.min


def _known_power(x: Any, exponent: int) -> Any:
    result = None
    while exponent:
        if exponent & 1:
            result = x if result is None else result * x
        exponent >>= 1
        x = x * x if exponent else x
    return result


def _raises_booleans(node: Node) -> bool:
    import torch

    is_boolean = node.args[0].meta["val"].dtype == torch.bool  # type: ignore[union-attr]
    return bool(is_boolean and all(type(value) is int for value in node.args[1:]))


def _power_of_booleans(x: Any, exponent: int = 2) -> Any:
    import torch

    x = x.to(torch.result_type(x, exponent))
    # What is true stays 1.
    return torch.ones_like(x) if exponent == 0 else x


def _adds_whole_numbers(node: Node) -> bool:
    """Tells whether whole numbers are added along one dimension, in their own type."""
    given, result = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    dims = argument_of(node, 1, "dim")
    is_whole = not given.dtype.is_floating_point and "bool" not in str(given.dtype)
    dims = [dims] if isinstance(dims, int) else dims
    return bool(is_whole and given.dtype == result.dtype and dims and len(dims) == 1)


def _sum_along(x: Any, dim: Any, keepdim: bool = False, **named: Any) -> Any:
    import torch

    [dim] = [dim] if isinstance(dim, int) else dim
    # Along two dimensions the kernel keeps the type.
    total = torch.sum(x.unsqueeze(x.dim()), [dim % x.dim(), x.dim()], True, **named).squeeze(-1)
    return total if keepdim else total.squeeze(dim)


_OF_BYTES = (
    *("add.Scalar", "add.Tensor", "clamp.default", "clamp_max.default", "clamp_min.default"),
    *("clip.default", "div.Scalar_mode", "div.Tensor_mode", "floor_divide.Scalar"),
    *("floor_divide.default", "fmod.Scalar", "mul.Scalar", "mul.Tensor", "rsub.Scalar"),
    *("rsub.Tensor", "sub.Scalar", "sub.Tensor"),
)
_POWERS = ("pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor")
_REMAINDERS = ("remainder.Scalar", "remainder.Tensor")
_SHIFTS = (
    *("__lshift__.Scalar", "__lshift__.Tensor", "__rshift__.Scalar", "__rshift__.Tensor"),
    *("bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar"),
    *("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar"),
)
_MADE_OF_REMAINDERS = (
    *("cosine_embedding_loss.default", "margin_ranking_loss.default", "pairwise_distance.default"),
    *("poisson_nll_loss.default", "take_along_dim.default", "triplet_margin_loss.default"),
    # Other names of operators.
    *("concat.default", "concatenate.default", "multiply.Scalar", "multiply.Tensor"),
    *("divide.Scalar", "divide.Scalar_mode", "divide.Tensor", "divide.Tensor_mode"),
    *("subtract.Scalar", "subtract.Tensor", "true_divide.Scalar", "true_divide.Tensor"),
    *("divide_.Scalar_mode", "divide_.Tensor_mode", "multiply_.Scalar", "multiply_.Tensor"),
    *("subtract_.Scalar", "subtract_.Tensor"),
)

RULES: Mapping[str, tuple[Rule, ...]] = {
    "boolean_power": (
        Rule(("pow.Tensor_Scalar", "square.default"), _raises_booleans, _power_of_booleans),
    ),
    "byte_numbers": tuple(
        Rule((name,), _has_other_number, _with_bytes(name)) for name in _OF_BYTES
    ),
    "double_remainder": (Rule(_REMAINDERS, _is_double, _remainder),),
    "floor_division": (
        Rule(
            (
                *("div.Scalar_mode", "div.Tensor_mode", "floor_divide.Scalar"),
                "floor_divide.default",
            ),
            _divides_half,
            _half_quotient,
        ),
        Rule(("div.Tensor_mode", "floor_divide.default"), _may_floor_zero, _floor_division),
    ),
    "integer_power": (Rule(_POWERS, _is_whole_power, _integer_power),),
    "integer_remainder": (Rule(_REMAINDERS, _is_whole, _remainder),),
    "integer_shift": tuple(Rule((name,), _shifts_far, _shift(name)) for name in _SHIFTS),
    "number_remainder": (Rule(("remainder.Scalar_Tensor",), always, _remainder_of_number),),
    "whole_sum": (
        Rule(
            (
                "nansum.default",
                "sum.dim_IntList",
            ),
            _adds_whole_numbers,
            _sum_along,
        ),
    ),
}
REASONS: Mapping[str, str] = {
    "boolean_power": "the kernel's result has booleans, and eager's whole numbers",
    "byte_numbers": "the kernels refuse numbers that no byte holds, or compute something else",
    "double_remainder": "the kernel computes in 32 bits",
    "floor_division": "the kernel gives infinity for zero by zero, signs of its own, and rounds a "
    "single number to 16 bits",
    "integer_power": "the kernel computes in doubles, which have 53 bits",
    "integer_remainder": "the kernel's result has the sign of what is divided",
    "integer_shift": "the kernel shifts by negative and by large numbers as the processor does",
    "number_remainder": "there is no kernel for a number first",
    "whole_sum": "the kernel adds whole numbers of one type along one dimension as 32-bit floats",
}
# Operators that are made of those of a rule.
COMPOSITES: Mapping[str, tuple[str, ...]] = {"integer_remainder": _MADE_OF_REMAINDERS}
