"""Environment markers, compared with the packaging standard's own implementation."""

from __future__ import annotations

import itertools
import random

import pytest
from helpers import LINUX
from install import markers
from pip._vendor.packaging.markers import InvalidMarker, Marker

_VALUES = {
    "python_version": ["3.11", "3.9", "3.12", "3", "3.11.0", "2.7", "3.11.dev0"],
    "python_full_version": ["3.11.7", "3.11.0rc1", "3.11.*", "3.11.10", "4", "3.11.7.post1"],
    "sys_platform": ["linux", "darwin", "win32", "lin"],
    "platform_machine": ["x86_64", "arm64", "x86_64 arm64"],
    "implementation_name": ["cpython", "pypy"],
    "extra": ["", "test"],
}
_OF_VERSIONS = ["==", "!=", "<", "<=", ">", ">=", "~="]
_OF_TEXTS = ["==", "!=", "in", "not in"]


def comparisons() -> list[str]:
    found = []
    for name, values in _VALUES.items():
        operators = _OF_VERSIONS if "version" in name else _OF_TEXTS
        for operator, value in itertools.product(operators, values):
            if value.endswith("*") and operator not in ("==", "!="):
                continue
            found.append(f"{name} {operator} '{value}'")
            found.append(f'"{value}" {operator} {name}' if operator in ("in", "==") else found[-1])
    return found


def standard(marker: str) -> bool | None:
    """Evaluates a marker with the standard's implementation; None: it does not accept it."""
    try:
        return Marker(marker).evaluate({**markers.this_machine(), **LINUX})
    except Exception:
        return None


def test_comparisons() -> None:
    """Each variable with each operator."""
    checked = 0
    for marker in comparisons():
        expected = standard(marker)
        if expected is not None:
            checked += 1
            assert markers.evaluate(marker, LINUX) is expected, marker
    assert checked > 150


def test_combinations() -> None:
    """Random trees of and, or and parentheses."""
    generator = random.Random(7)
    simple = [marker for marker in comparisons() if standard(marker) is not None]

    def tree(depth: int) -> str:
        if not depth:
            return generator.choice(simple)
        parts = [tree(depth - 1) for _ in range(generator.randint(1, 3))]
        return "(" + f" {generator.choice(['and', 'or'])} ".join(parts) + ")"

    for _ in range(200):
        marker = tree(generator.randint(1, 3))
        assert markers.evaluate(marker, LINUX) is standard(marker), marker


@pytest.mark.parametrize(
    "text",
    [
        "nobody == 'x'",
        "__import__('os')",
        "sys_platform ==",
        "sys_platform",
        "'linux'",
        "not sys_platform == 'linux'",
        "sys_platform == 'a' == 'b'",
        "sys_platform + 'a' == 'b'",
        "sys_platform is not 'b'",
        "1 == python_version",
    ],
)
def test_what_is_no_marker(text: str) -> None:
    with pytest.raises(ValueError, match="malformed marker"):
        markers.evaluate(text)
    with pytest.raises(InvalidMarker):
        Marker(text)
