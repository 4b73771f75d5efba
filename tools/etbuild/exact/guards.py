"""Small numbers that keep a divisor from zero, and are zero in 16-bit floats themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import dtype_of
from etbuild.exact.ranges import TINY
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node

_BEHIND = frozenset(
    f"aten.{name}"
    for name in (
        *("expand.default", "expand_as.default", "permute.default", "pow.Tensor_Scalar"),
        *("reshape.default", "sqrt.default", "squeeze.dim", "squeeze.dims", "transpose.int"),
        *("unsqueeze.default", "view.default"),
    )
)
_DIVIDING = frozenset(("aten.reciprocal.default", "aten.rsqrt.default"))


def _guarded_sum(x: Any, number: float) -> Any:
    """x + number, and more where x is zero."""
    size = x.abs().clamp(max=1.0)
    return x + number + (TINY - size * 2.0**10).relu()


def _guarded_bound(x: Any, least: Any, most: float | None = None) -> Any:
    return x.clamp(TINY, most)


def _divides(node: Node) -> bool:
    """Tells whether something is divided by a node, or by what follows from it alone."""
    path = [node]
    for value in path:
        for user in value.users:
            name = str(user.target)
            if name in _DIVIDING or (name == "aten.div.Tensor" and user.args[1] is value):
                return True
            if name in _BEHIND and user.args[0] is value:
                path.append(user)
    return False


def _is_guard(node: Node) -> bool:
    if len(node.args) < 2 or not dtype_of(node).is_floating_point:
        return False
    number: Any = node.args[1]
    if str(getattr(number, "target", "")) == "aten.scalar_tensor.default":
        number = number.args[0]
    is_small = type(number) is float and 0 < number < TINY
    return is_small and not node.kwargs and _divides(node)


RULES: Mapping[str, tuple[Rule, ...]] = {
    "half_guard": (
        Rule(("add.Tensor",), _is_guard, _guarded_sum),
        Rule(("clamp.default", "clamp_min.Tensor", "clamp_min.default"), _is_guard, _guarded_bound),
    ),
}
REASONS: Mapping[str, str] = {
    "half_guard": "the number is zero in the delegate's 16-bit floats",
}
