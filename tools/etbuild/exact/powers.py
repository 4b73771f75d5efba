"""Powers of floats by a number, and norms that are made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from etbuild.exact.roots import MADE_OF_NORMS, order_of
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


def _is_of_floats(node: Node) -> bool:
    return bool(node.args[0].meta["val"].dtype.is_floating_point)  # type: ignore[union-attr]


def _is_root(node: Node) -> bool:
    return _is_of_floats(node) and node.args[1] == 0.5


def _root(x: Any, exponent: float) -> Any:
    return x.sqrt()


def _is_below_zero(node: Node) -> bool:
    exponent = node.args[1]
    return _is_of_floats(node) and isinstance(exponent, int | float) and exponent < 0


def _reciprocal_power(x: Any, exponent: float) -> Any:
    """The power of a reciprocal, or the reciprocal of a root: neither leaves the range early."""
    if exponent in (-1, -0.5):
        return x.reciprocal() if exponent == -1 else x.rsqrt()
    return (x**-exponent).reciprocal() if exponent > -1 else x.reciprocal() ** -exponent


def _is_norm_below_zero(node: Node) -> bool:
    return _is_of_floats(node) and math.isfinite(order_of(node)) and order_of(node) < 0


def _norm_below_zero(
    x: Any, order: float, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    x = x if dtype is None else x.to(dtype)
    dims = list(range(x.dim())) if dim is None or dim == [] else dim
    total = _reciprocal_power(x.abs(), order).sum(dims, keepdim=keepdim)
    return _reciprocal_power(total, 1 / order)


def _is_other_norm(node: Node) -> bool:
    return _is_of_floats(node) and order_of(node) not in (1, 2)


def _other_norm(
    x: Any, order: float, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if order < 0 and math.isfinite(order):
        return _norm_below_zero(x, order, dim, keepdim, dtype=dtype)
    x = x if dtype is None else x.to(dtype)
    dims = list(range(x.dim())) if dim is None or dim == [] else dim
    if not math.isfinite(order):
        return x.abs().amax(dims, keepdim) if order > 0 else x.abs().amin(dims, keepdim)
    if order == 0:
        return (x != 0).to(x.dtype).sum(dims, keepdim=keepdim)
    return (x.abs() ** order).sum(dims, keepdim=keepdim) ** (1 / order)


def _is_zeroth(node: Node) -> bool:
    return _is_of_floats(node) and node.args[1] == 0


def _ones(x: Any, exponent: float) -> Any:
    import torch

    return torch.ones_like(x)


_NORMS = ("linalg_vector_norm.default", "norm.ScalarOpt_dim")

RULES: Mapping[str, tuple[Rule, ...]] = {
    "negative_power": (
        Rule(("pow.Tensor_Scalar",), _is_below_zero, _reciprocal_power),
        Rule(_NORMS, _is_norm_below_zero, _norm_below_zero),
    ),
    "norm_order": (Rule(_NORMS, _is_other_norm, _other_norm),),
    "power_root": (Rule(("pow.Tensor_Scalar",), _is_root, _root),),
    "zeroth_power": (Rule(("pow.Tensor_Scalar",), _is_zeroth, _ones),),
}
REASONS: Mapping[str, str] = {
    "negative_power": "the delegate gives a number for zero, and eager an infinity",
    "norm_order": "the delegate's lowering fails",
    "power_root": "the delegate gives a number for a root of one below zero, or fails on it",
    "zeroth_power": "the delegate gives zero for zero",
}
# Operators that are made of those of a rule.
COMPOSITES: Mapping[str, tuple[str, ...]] = {
    "negative_power": MADE_OF_NORMS,
    "norm_order": MADE_OF_NORMS,
}
