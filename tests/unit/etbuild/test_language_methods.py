"""Names of a language model's methods."""

from __future__ import annotations

import pytest
from etbuild.language_methods import MethodName, converse, parse, prompt_lengths, prompt_method


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("forward", MethodName("", "forward", None)),
        ("prefill", MethodName("", "prefill", None)),
        ("prefill_8", MethodName("", "prefill_8", 8)),
        ("decode", MethodName("", "decode", 1)),
        ("poet_forward", MethodName("poet", "forward", None)),
        ("a_poet_prefill_16", MethodName("a_poet", "prefill_16", 16)),
        ("prefill_0", None),
        ("prefill_8b", None),
        ("prefill_٣", None),
        ("_forward", None),
        ("read", None),
    ],
)
def test_parts(name: str, parsed: MethodName | None) -> None:
    assert parse(name) == parsed


def test_the_method_of_a_prompt() -> None:
    names = ["decode", "prefill_32", "prefill", "prefill_4", "poet_prefill_2"]
    assert prompt_lengths(names) == [4, 32]
    assert prompt_method(names, 32) == "prefill_32"
    assert prompt_method(names, 5) == "prefill"
    assert prompt_method(["forward"], 5) == "forward"
    assert prompt_method(["decode", "prefill_4"], 5) == ""


@pytest.mark.parametrize(
    ("names", "enough"),
    [
        (["forward"], True),
        (["decode", "prefill"], True),
        (["decode", "prefill_4"], True),
        (["decode"], False),
        (["prefill", "prefill_4"], False),
        (["decode", "poet_prefill_4"], False),
    ],
)
def test_what_a_conversation_needs(names: list[str], enough: bool) -> None:
    assert converse(names) is enough
