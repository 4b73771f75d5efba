"""Environment markers of requirements (`sys_platform == 'linux' and …`), evaluated without pip."""

from __future__ import annotations

import ast
import os
import platform
import sys
from collections.abc import Mapping

_VERSIONS = ("python_version", "python_full_version")


def host_environment() -> dict[str, str]:
    """What this interpreter and machine give for the names that markers use."""
    return {
        "implementation_name": sys.implementation.name,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_system": platform.system(),
        "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
        "extra": "",
    }


def matches(marker: str, environment: Mapping[str, str]) -> bool:
    """Whether a marker holds; an empty one does. Raises ValueError for what is no marker."""
    if not marker:
        return True
    try:
        tree = ast.parse(marker.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"not an environment marker: {marker!r}") from error
    return _truth(tree.body, environment, marker)


def _truth(node: ast.expr, environment: Mapping[str, str], marker: str) -> bool:
    if isinstance(node, ast.BoolOp):
        values = (_truth(value, environment, marker) for value in node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = node.left, node.comparators[0]
        names = [n.id for n in (left, right) if isinstance(n, ast.Name)]
        a, b = (_text(n, environment, marker) for n in (left, right))
        return _compare(node.ops[0], a, b, bool(set(names) & set(_VERSIONS)), marker)
    raise ValueError(f"not an environment marker: {marker!r}")


def _text(node: ast.expr, environment: Mapping[str, str], marker: str) -> str:
    if isinstance(node, ast.Name) and node.id in environment:
        return environment[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError(f"not an environment marker: {marker!r}")


def _compare(operator: ast.cmpop, a: str, b: str, versions: bool, marker: str) -> bool:
    if isinstance(operator, ast.In):
        return a in b
    if isinstance(operator, ast.NotIn):
        return a not in b
    left: object = _version(a) if versions else a
    right: object = _version(b) if versions else b
    if isinstance(operator, ast.Eq):
        return left == right
    if isinstance(operator, ast.NotEq):
        return left != right
    if not versions:
        raise ValueError(f"only versions can be ordered, in the marker {marker!r}")
    assert isinstance(left, tuple) and isinstance(right, tuple)
    if isinstance(operator, ast.Lt):
        return left < right
    if isinstance(operator, ast.LtE):
        return left <= right
    if isinstance(operator, ast.Gt):
        return left > right
    if isinstance(operator, ast.GtE):
        return left >= right
    raise ValueError(f"unknown comparison in the marker {marker!r}")


def _version(text: str) -> tuple[int, ...]:
    """A release as numbers, padded so that 3.11 equals 3.11.0; suffixes such as rc1 are cut."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = ""
        for character in part:
            if not character.isdigit():
                break
            digits += character
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers + [0] * (4 - len(numbers)))
