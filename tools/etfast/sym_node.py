"""Does arithmetic on symbolic sizes once for each pair of numbers.

Replaces the binary operators of torch's `SymNode`. Each fake tensor with a symbolic size costs
dozens of them, for its strides and for whether it is contiguous, and a lowering has few different
ones: the same sizes come again in each layer and in each pass.

Why it is equivalent: what is kept is the expression that upstream's function made of two
expressions, and its type, which depend on nothing else; each call gets a node of its own. While
sizes are traced, or their arithmetic is recorded for validation, upstream's function runs. `mod`
asks what is known about ranges, so it is left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from etlower.replacing import replaced
from torch._logging import _internal as logging_internal
from torch.fx.experimental import sym_node
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from etfast.unit import Unit

_METHODS = ("add", "sub", "mul", "eq", "ne", "ge", "gt", "le", "lt")
_MOST = 100_000


def remembering(method: str, upstream: Callable[..., Any]) -> Callable[..., Any]:
    """A binary operator of SymNode that knows its results for expressions.

    Args:
      method: its name: "add".
      upstream: the operator.
    """
    results: dict[Any, tuple[Any, type, bool]] = {}
    operator = sym_node.METHOD_TO_OPERATOR[method]
    node_of = sym_node.SymNode
    unknown = sym_node._NO_HINT
    hinted = (int, float, bool)

    def binary(self: Any, other: Any = None) -> Any:
        env = self.shape_env
        if (
            type(other) is not node_of
            or env is None
            or env._translation_validation_enabled
            or logging_internal.GET_DTRACE_STRUCTURED
            or get_proxy_mode()
        ):
            return upstream(self, other)
        key = (
            self.expr,
            other.expr,
            self.pytype,
            other.pytype,
            self._optimized_summation,
            other._optimized_summation,
        )
        known = results.get(key)
        hint, other_hint = self._hint, other._hint
        if known is None or (hint is not None and type(hint) not in hinted):
            result = upstream(self, other)
            if type(result) is node_of and result.constant is None and len(results) < _MOST:
                results[key] = (result._expr, result.pytype, result._optimized_summation)
            return result
        expression, kind, summation = known
        value = unknown
        if hint is not None and other_hint is not None:
            value = operator(hint, other_hint)
            if type(value) is not kind and type(value) in hinted:
                value = kind(value)
        return node_of(expression, env, kind, value, optimized_summation=summation)

    return binary


def _install() -> contextlib.AbstractContextManager[None]:
    node = sym_node.SymNode
    names = {method: f"_{method}" for method in _METHODS}
    return replaced(
        *((node, name, remembering(method, getattr(node, name))) for method, name in names.items())
    )


UNIT = Unit(
    name="sym_node",
    relies_on={
        "torch.fx.experimental.sym_node": {
            "_make_node_magic": "ab6027b6a718f227",
            "SymNode.__init__": "c3d60d782635b90b",
            "SymNode.expr": "b7e83fa5d9d17686",
        },
    },
    install=_install,
)
