"""Roots of sums of squares, in steps that 16-bit floats hold: norms, deviations, `rms_norm`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import argument_of, dtype_of
from etbuild.exact.ranges import TINY
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node

# The largest 16-bit float.
_HUGE = 65504.0
# Numbers up to 1 whose sum has no more digits than its parts.
_MANY = 1024


def root(
    x: Any,
    dims: Sequence[int],
    keepdim: bool,
    power: int,
    factor: float | None = 1.0,
    added: float = 0.0,
    order: float = 2.0,
    is_centered: bool = False,
) -> Any:
    """(factor * mean(|x| ** order) + added) ** (power / order), of numbers that are at most 1.

    Args:
      x: floats.
      dims: over which the mean is.
      keepdim: whether the result has them.
      power: 1: a root; -1: the reciprocal of one; 2, with the order 2: what is below a root.
      factor: of the mean; None: a sum of as many as there are.
      added: a small number.
      order: 2 for squares.
      is_centered: whether x is taken apart from its mean.
    """
    import torch

    if is_centered:
        x = x - torch.mean(x, dims, keepdim=True)
    small_number = (added / (factor or 1.0)) ** (1 / order)
    largest = torch.amax(torch.abs(x), dims, keepdim=True)
    largest = largest.clamp(min=max(TINY, small_number / 16))
    powers = _power(x / largest, order)
    if factor is None:
        total, scale = torch.sum(powers, dims, keepdim=True), 1.0
    else:
        total, scale = torch.mean(powers, dims, keepdim=True), factor ** (1 / order)
    if added:
        total = total + _power(small_number / largest, order)
    if power == 2:
        result = total * factor * largest * largest
    elif power == 1:
        result = (total.sqrt() if order == 2 else total ** (1 / order)) * largest
        result = result if scale == 1 else result * scale
    else:
        result = total.rsqrt() / (largest if scale == 1 else largest * scale)
        # What it is multiplied with may be zero.
        result = result.clamp(max=_HUGE) if added else result
    return result if keepdim else torch.squeeze(result, dims)


def _power(x: Any, order: float) -> Any:
    return x * x if order == 2 else x.abs() ** order


def rms_norm(x: Any, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """`torch.nn.functional.rms_norm`."""
    import torch

    epsilon = torch.finfo(x.dtype).eps if eps is None else eps
    result = x * root(x, list(range(-len(shape), 0)), True, -1, added=epsilon)
    return result if weight is None else result * weight


def _dims(node: Node, dims: Any) -> list[int]:
    """The dimensions of what a node is given that are meant: all where none is named."""
    count = node.args[0].meta["val"].dim()  # type: ignore[union-attr]
    dims = [dims] if isinstance(dims, int) else list(dims or range(count))
    return sorted(dim % count for dim in dims) if count else []


def _count(node: Node, dims: Sequence[int]) -> Any:
    return math.prod(node.args[0].meta["val"].shape[dim] for dim in dims)  # type: ignore[union-attr]


def _has_numbers(node: Node) -> bool:
    """Tells whether a node is given floats, of which it adds some."""
    value = node.args[0].meta["val"]  # type: ignore[union-attr]
    return bool(value.dtype.is_floating_point and value.dim() and value.numel() > 0)


def order_of(norm: Node) -> float:
    """The order of a norm, which is 2 where it is left open."""
    order = argument_of(norm, 1, "ord", argument_of(norm, 1, "p", 2))
    return 2 if order is None else order


def _is_norm(node: Node) -> bool:
    is_written = math.isfinite(order_of(node)) and order_of(node) > 1
    dtype = argument_of(node, 4, "dtype")
    return is_written and _has_numbers(node) and dtype in (None, dtype_of(node.args[0]))  # type: ignore[arg-type]


def _of_norm(node: Node) -> Sequence[Any]:
    dims = _dims(node, argument_of(node, 2, "dim"))
    keepdim = argument_of(node, 3, "keepdim", False)
    return node.args[0], dims, keepdim, 1, _as_factor(_count(node, dims)), 0.0, order_of(node)


def _as_factor(count: Any) -> float | None:
    """The factor that makes a mean a sum; None: the sum does not leave the range itself."""
    return float(count) if isinstance(count, int) and count > _MANY else None


def _correction(node: Node) -> tuple[list[int], bool, float]:
    """The dimensions of a variance, whether it keeps them, and what is taken off their count."""
    given = node.args[1:]
    is_of_all = bool(given) and isinstance(given[0], bool)
    dims = _dims(node, None if is_of_all else argument_of(node, 1, "dim"))
    unbiased = node.kwargs.get("unbiased")
    for value in given[:2]:
        unbiased = value if isinstance(value, bool) else unbiased
    correction = node.kwargs.get("correction", 1 if unbiased is None else int(unbiased))  # type: ignore[call-overload]
    keepdim = node.kwargs.get("keepdim", given[2] if len(given) > 2 else False)
    return dims, bool(keepdim), 1 if correction is None else correction  # type: ignore[return-value]


def _varies(node: Node) -> bool:
    """Tells whether a variance is of more floats than are taken off their count."""
    if not _has_numbers(node):
        return False
    dims, _, correction = _correction(node)
    count = _count(node, dims)
    return isinstance(count, int) and count > max(correction, 1)


def _of_variance(node: Node, power: int, added: float = 0.0) -> Sequence[Any]:
    dims, keepdim, correction = _correction(node)
    count = _count(node, dims)
    return node.args[0], dims, keepdim, power, count / (count - correction), added, 2, True


_SQUARES = ("aten.mul.Tensor", "aten.pow.Tensor_Scalar", "aten.square.default")
_SUMS = {
    f"aten.{name}.{overload}": name
    for name, overloads in {
        "mean": ("default", "dim"),
        "sum": ("default", "dim_IntList"),
        "var": ("correction", "default", "dim"),
    }.items()
    for overload in overloads
}


def _summed(node: Node) -> tuple[Node | None, float]:
    """The sum of squares whose root a node takes, and the number that is added to it."""
    given, added = node.args[0], 0.0
    if str(given.target) == "aten.add.Tensor" and not given.kwargs:  # type: ignore[union-attr]
        given, number = given.args  # type: ignore[union-attr]
        if not isinstance(number, int | float) or isinstance(number, bool) or number < 0:
            return None, 0.0
        added = float(number)
    kind = _SUMS.get(str(getattr(given, "target", "")))
    if kind is None or "dtype" in given.kwargs:  # type: ignore[union-attr]
        return None, 0.0
    takes = _varies(given) if kind == "var" else _adds_squares(given)  # type: ignore[arg-type]
    return (given if takes else None), added  # type: ignore[return-value]


def _adds_squares(node: Node) -> bool:
    square = node.args[0]
    if str(getattr(square, "target", "")) not in _SQUARES or not _has_numbers(node):
        return False
    x, *rest = square.args  # type: ignore[union-attr]
    is_square = not rest or rest[0] is x or rest == [2]
    return is_square and dtype_of(x).is_floating_point  # type: ignore[arg-type]


def _power_of(node: Node) -> int:
    """Tells whether a node takes a root (1) or the reciprocal of one (-1)."""
    if "pow" in str(node.target):
        return int(2 * node.args[1])  # type: ignore[operator]
    return -1 if "rsqrt" in str(node.target) else 1


def _is_root(node: Node) -> bool:
    if "pow" in str(node.target) and node.args[1] not in (0.5, -0.5):
        return False
    return hasattr(node.args[0], "meta") and _summed(node)[0] is not None


def _of_root(node: Node) -> Sequence[Any]:
    summed, added = _summed(node)
    assert summed is not None
    power, kind = _power_of(node), _SUMS[str(summed.target)]
    if kind == "var":
        return _of_variance(summed, power, added)
    dims = _dims(summed, argument_of(summed, 1, "dim"))
    factor = 1.0 if kind == "mean" else _as_factor(_count(summed, dims))
    keepdim = argument_of(summed, 2, "keepdim", False)
    return summed.args[0].args[0], dims, keepdim, power, factor, added  # type: ignore[union-attr]


# What torch makes of norms of vectors.
MADE_OF_NORMS = (
    *("cosine_embedding_loss.default", "cosine_similarity.default", "dist.default"),
    *("frobenius_norm.dim", "linalg_matrix_norm.default", "linalg_matrix_norm.str_ord"),
    *("linalg_norm.default", "linalg_norm.ord_str"),
    *("pairwise_distance.default", "renorm.default", "triplet_margin_loss.default"),
)
_OVERLOADS = ("correction", "default", "dim")

RULES: Mapping[str, tuple[Rule, ...]] = {
    "half_rms_norm": (Rule(("rms_norm.default",), _has_numbers, rms_norm),),
    "half_root": (
        Rule(
            ("linalg_vector_norm.default", "norm.Scalar", "norm.ScalarOpt_dim"),
            _is_norm,
            root,
            given=_of_norm,
        ),
        Rule(
            ("pow.Tensor_Scalar", "rsqrt.default", "sqrt.default"), _is_root, root, given=_of_root
        ),
        Rule(
            tuple(f"std.{overload}" for overload in _OVERLOADS),
            _varies,
            root,
            given=lambda node: _of_variance(node, 1),
        ),
    ),
    "half_variance": (
        Rule(
            tuple(f"var.{overload}" for overload in _OVERLOADS),
            _varies,
            root,
            given=lambda node: _of_variance(node, 2),
        ),
    ),
}
REASONS: Mapping[str, str] = {
    "half_rms_norm": "a square leaves the range of the delegate's 16-bit floats",
    "half_root": "a square leaves the range of the delegate's 16-bit floats",
    "half_variance": "a square leaves the range of the delegate's 16-bit floats",
}
# Operators that are made of those of a rule.
COMPOSITES: Mapping[str, tuple[str, ...]] = {"half_root": MADE_OF_NORMS}
