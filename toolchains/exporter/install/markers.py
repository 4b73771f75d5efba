"""Environment markers of requirements: `sys_platform == 'linux' and python_version >= '3.11'`."""

from __future__ import annotations

import ast
import operator
import os
import platform
import re
import sys
from collections.abc import Callable, Mapping

# Both are of markers only; in Python's grammar, another operator has their place.
_COMPATIBLE = (("===", "=="), ("~=", "is"))
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)((?:a|b|rc|\.dev|\.post)\d+)?(?:\+\S*)?")
_COMPARE: Mapping[type, Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
# Before a release, at it, after it.
_PHASES = {".dev": -4, "a": -3, "b": -2, "rc": -1, "": 0, ".post": 1}


def this_machine() -> dict[str, str]:
    """The values that markers have here."""
    version = ".".join(map(str, sys.implementation.version[:3]))
    return {
        "extra": "",
        "implementation_name": sys.implementation.name,
        "implementation_version": version,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "python_version": ".".join(map(str, sys.version_info[:2])),
        "sys_platform": sys.platform,
    }


def evaluate(marker: str, environment: Mapping[str, str] | None = None) -> bool:
    """Returns whether a marker holds here, or where `environment` has other values.

    Raises:
      ValueError: it is no marker.
    """
    text = marker
    for ours, pythons in _COMPATIBLE:
        text = text.replace(ours, f" {pythons} ")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"malformed marker: {marker}") from error
    return _holds(tree, {**this_machine(), **(environment or {})})


def _holds(node: ast.expr, values: Mapping[str, str]) -> bool:
    if isinstance(node, ast.BoolOp):
        parts = [_holds(part, values) for part in node.values]
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compare(_value(node.left, values), node.ops[0], _value(node.comparators[0], values))
    raise ValueError(f"malformed marker: {ast.unparse(node)}")


def _value(node: ast.expr, values: Mapping[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    raise ValueError(f"malformed marker: {ast.unparse(node)}")


def _release(text: str) -> tuple[object, ...] | None:
    """A version's parts, in the order of versions; None for other texts."""
    match = _VERSION.fullmatch(text.strip())
    if not match:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    while numbers[1:] and not numbers[-1]:
        numbers.pop()
    name = (match[2] or "").rstrip("0123456789")
    return (*numbers[:1], tuple(numbers[1:]), _PHASES[name], int((match[2] or "0")[len(name) :]))


def _compare(left: str, op: ast.cmpop, right: str) -> bool:
    if isinstance(op, ast.In | ast.NotIn):
        return (left in right) == isinstance(op, ast.In)
    if right.endswith(".*") and isinstance(op, ast.Eq | ast.NotEq):
        same = f"{left}.".startswith(right[:-1])
        return same == isinstance(op, ast.Eq)
    pair: tuple[object, object] = (left, right)
    if (versions := (_release(left), _release(right))) and None not in versions:
        pair = versions
    if isinstance(op, ast.Is):  # ~=: not older, and the same but for the last part.
        prefix = right.rpartition(".")[0]
        return pair[0] >= pair[1] and f"{left}.".startswith(f"{prefix}.")  # type: ignore[operator]
    if type(op) not in _COMPARE:
        raise ValueError("malformed marker: unknown operator")
    return _COMPARE[type(op)](*pair)
