"""Versions as programs, packages and labels write them."""

from __future__ import annotations

import pytest
from bootstrap.versions import format_version, new_enough, parse_version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bazel 7.7.1\n", (7, 7, 1)),
        ("bazel 8.0.0-pre.20240911.1 (@abc)", (8, 0, 0)),
        ("7.7.1+ds-8+b1", (7, 7, 1)),
        ("release 10.0.0rc1", (10, 0, 0)),
        ("bazel no_version", None),
        ("", None),
    ],
)
def test_parse(text: str, expected: tuple[int, ...] | None) -> None:
    """Only the number counts, wherever it stands."""
    assert parse_version(text) == expected


def test_order() -> None:
    """7.10 is newer than 7.7, and 7.6.9 is too old."""
    assert new_enough((7, 7))
    assert new_enough((7, 10, 0))
    assert new_enough((8, 0))
    assert not new_enough((7, 6, 9))
    assert not new_enough((4, 2, 3))


def test_format() -> None:
    """As users write it."""
    assert format_version((7, 7, 1)) == "7.7.1"
