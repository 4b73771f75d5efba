"""Resizing by factors that leave a dimension as large as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import aten
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


def _factors(x: Any, factors: Sequence[float]) -> list[float]:
    """Factors of a resizing, 1 for dimensions whose sizes stay."""
    sizes = zip(x.shape[2:], factors, strict=True)
    return [1.0 if type(n) is int and int(n * factor) == n else factor for n, factor in sizes]


def _keeps_a_size(node: Node) -> bool:
    """Tells whether a resizing by a factor leaves a dimension as large as it is."""
    *_, factors = node.args
    if not isinstance(factors, list | tuple):
        return False
    return _factors(node.args[0].meta["val"], factors) != list(factors)


def _resized(operator: str) -> Callable[..., Any]:
    def function(x: Any, *args: Any) -> Any:
        *rest, factors = args
        return aten(operator)(x, *rest, _factors(x, factors))

    return function


# Interpolation with factors, which are the last argument.
_RESIZING = (
    "_upsample_bilinear2d_aa.vec",
    "upsample_bilinear2d.vec",
    "upsample_linear1d.vec",
    "upsample_nearest2d.vec",
    "upsample_trilinear3d.vec",
)

RULES: Mapping[str, tuple[Rule, ...]] = {
    "kept_size": tuple(
        Rule((name,), _keeps_a_size, _resized(name), whole=True) for name in _RESIZING
    ),
}
REASONS: Mapping[str, str] = {
    "kept_size": "kernels scale a dimension whose size stays, and eager does not",
}
