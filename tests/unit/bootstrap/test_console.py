"""How errors look."""

from __future__ import annotations

from bootstrap.console import BootstrapError, format_error


def test_one_remedy() -> None:
    """What is wrong, then what to do."""
    error = BootstrapError("it is broken\nbecause", ["Mend it."])
    assert format_error(error) == "bazelw: error: it is broken\n  because\n  To do: Mend it."


def test_remedies() -> None:
    """A choice of them."""
    error = BootstrapError("it is broken", ["Mend it.", "Buy\nanother."])
    assert format_error(error).splitlines() == [
        "bazelw: error: it is broken",
        "  Do one of:",
        "    - Mend it.",
        "    - Buy",
        "      another.",
    ]


def test_no_remedy() -> None:
    """Just the reason."""
    assert format_error(BootstrapError("it is broken")) == "bazelw: error: it is broken"
