"""Numbers, amounts and options by their spelling: the table is that of the checks in Starlark."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from etbuild import BuildError, Options
from etlink.amounts import amount, bytes_of

TABLE = runpy.run_path(str(Path(__file__).parent / "grammar.bzl"))


@pytest.mark.parametrize(("text", "value"), TABLE["NUMBERS"].items())
def test_numbers(text: str, value: float | None) -> None:
    assert converted("float", text) == value


@pytest.mark.parametrize(("text", "value"), TABLE["PERCENTAGES"].items())
def test_percentages(text: str, value: float | None) -> None:
    if value is not None:
        assert amount(text, "//m:p: min_shared") == (value, True)
        return
    with pytest.raises(BuildError, match=re.escape(f'//m:p: min_shared: got "{text}", expected a')):
        amount(text, "//m:p: min_shared")


@pytest.mark.parametrize(("text", "value"), TABLE["BYTES"].items())
def test_bytes(text: str, value: float | None) -> None:
    if value is not None:
        assert bytes_of(text, "//m:t: max_bytes") == value
        return
    with pytest.raises(BuildError, match=re.escape(f'//m:t: max_bytes: got "{text}", expected a')):
        bytes_of(text, "//m:t: max_bytes")


@pytest.mark.parametrize(("option", "value"), TABLE["OPTIONS"].items())
def test_options(option: tuple[str, str], value: Any) -> None:
    result = converted(*option)
    assert (type(result), result) == (type(value), value)


def converted(kind: str, text: str) -> Any:
    """An option of a type, as builders read it; None: its text is wrong."""
    options = Options({"o": text}, "//r:mine")
    try:
        if kind == "bool":
            return options.boolean("o", True)
        if kind == "float":
            return options.number("o", 0.0)
        if kind.startswith("int"):
            least = kind.partition(">=")[2]
            return options.integer("o", 0, minimum=int(least) if least else None)
        return options.text("o", "", kind.split("|") if "|" in kind else ())
    except BuildError:
        return None
