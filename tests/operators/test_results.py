"""The record of operators: what it has of nets, and what it says of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.operators import page, results

OUTCOMES = [
    ("abs", "float32 0: 3", "equal", ""),
    ("abs", "int64 0: 3", "equal", ""),
    ("addmv", "float32 0: 3", "build", "no kernel"),
    ("addmv", "float32 1: 4", "build", "no kernel"),
    ("max", "float16 0: 3", "differs", "up to 2"),
    ("max", "float16 1: 4", "differs", "up to 2"),
    ("max", "float32 0: 3", "equal", ""),
    ("max", "float32 1: 4", "crash", "SIGABRT"),
]
OPERATORS = {
    "abs": {"equal": 2},
    "addmv": {"build": {"no kernel": ["all"]}},
    "max": {
        "equal": 1,
        "differs": {"up to 2": ["float16"]},
        "crash": {"SIGABRT": ["float32 1: 4"]},
    },
}


def test_what_a_record_has() -> None:
    assert results.described(reversed(OUTCOMES)) == OPERATORS


@pytest.mark.parametrize(("operator", "parameters", "kind", "reason"), OUTCOMES)
def test_what_a_record_says_of_a_net(
    operator: str, parameters: str, kind: str, reason: str
) -> None:
    assert results.recorded(OPERATORS, operator, parameters) == kind
    assert results.recorded(OPERATORS, "other", parameters) is None


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "operators.json"
    entry = {"nets": 8, "minutes": 0.1, "operators": OPERATORS}
    record = {"executorch": "1.5.1", "recipes": {"fp32": entry, "int8": entry}}
    results.write(file, record)
    assert results.read(file) == record == json.loads(file.read_text())
    assert '        "abs": {"equal": 2},\n' in file.read_text()
    assert results.read(tmp_path / "none.json") == {"executorch": "", "recipes": {}}


def test_the_page() -> None:
    entry = {"nets": 8, "minutes": 0.1, "operators": OPERATORS}
    text = page.text({"npu": {"executorch": "1.5.1", "recipes": {"fp32": entry}}})
    assert "| `//backends/npu:fp32` | 1.5.1 | 8 | 1 | 2 | 0.1 |" in text
    assert "| `max` | up to 2 | float16 |" in text
    assert "| `addmv` | no kernel | all |" in text
