"""Options of a recipe: conversions and what they say about a wrong value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from etbuild import BuildError, Options


def options(**values: str) -> Options:
    """Options of //r:mine."""
    return Options(values, "//r:mine")


def test_it_is_a_sorted_mapping() -> None:
    result = options(b="2", a="1")
    assert (list(result), len(result), dict(result)) == (["a", "b"], 2, {"a": "1", "b": "2"})
    assert "c" not in result
    assert not Options()


def test_later_changes_of_the_source_do_not_reach_it() -> None:
    values = {"a": "1"}
    result = Options(values)
    values["a"] = "2"
    assert result["a"] == "1"


def test_defaults_replace_missing_options() -> None:
    result = options()
    assert result.integer("n", 32, minimum=64) == 32
    assert result.number("x", 0.5) == 0.5
    assert result.boolean("b", True) is True
    assert result.text("t", "abc") == "abc"
    assert result.text("c", "slow", ("slow", "fast")) == "slow"


@pytest.mark.parametrize(
    ("convert", "got", "expected"),
    [
        (lambda o: o.integer("o", 1), "3.5", "a whole number"),
        (lambda o: o.integer("o", 1), "", "a whole number"),
        (lambda o: o.integer("o", 1, minimum=8), "x", "a whole number of at least 8"),
        (lambda o: o.integer("o", 1, minimum=8), "7", "a whole number of at least 8"),
        (lambda o: o.integer("o", 1, minimum=0), "-1", "a whole number of at least 0"),
        (lambda o: o.number("o", 1.0), "much", "a number"),
        (lambda o: o.boolean("o", True), "2", "true or false"),
        (lambda o: o.text("o", "a", ("a", "b")), "c", "one of a, b"),
    ],
)
def test_a_wrong_value_is_named(convert: Callable[[Options], Any], got: str, expected: str) -> None:
    with pytest.raises(BuildError) as caught:
        convert(options(o=got))
    assert str(caught.value) == f'//r:mine: option "o": got "{got}", expected {expected}.'


def test_the_minimum_itself_is_allowed() -> None:
    assert options(n="8").integer("n", 1, minimum=8) == 8


def test_only_known_options_are_accepted() -> None:
    options(a="1").only("a", "b")
    options().only()
    with pytest.raises(BuildError) as caught:
        options(a="1", group_szie="2").only("group_size", "a")
    assert str(caught.value) == ('//r:mine: unknown option "group_szie". It takes: a, group_size.')
    with pytest.raises(BuildError) as caught:
        options(a="1").only()
    assert str(caught.value) == '//r:mine: unknown option "a". It takes none.'
