"""A sample of the matrix of transformers' architectures."""

from __future__ import annotations

import json
from pathlib import Path

import matrix
import pytest

_RECORDED = Path("tests/bench/results/huggingface.json")
# Beside the eleven of //tests/unit/huggingface.
_SAMPLE = [
    ("fill-mask", "electra"),
    ("image-classification", "resnet"),
]
# What the page says ran.
_RAN = sorted(
    (row["recipe"], row["task"], row["architecture"])
    for row in json.loads(_RECORDED.read_text(encoding="utf-8"))
    if row["result"] == "ran"
)


@pytest.mark.few(1)
@pytest.mark.parametrize(("task", "architecture"), _SAMPLE)
def test_sample(task: str, architecture: str) -> None:
    assert _result("fp32", task, architecture) == {"result": "ran"}


@pytest.mark.release
@pytest.mark.parametrize(("recipe", "task", "architecture"), _RAN)
def test_what_the_page_says_ran_runs(recipe: str, task: str, architecture: str) -> None:
    assert _result(recipe, task, architecture) == {"result": "ran"}


def test_the_page_has_each_combination_once() -> None:
    known = {(c.recipe, c.task, c.architecture) for c in matrix.of_each_architecture()}
    rows = json.loads(_RECORDED.read_text(encoding="utf-8"))
    recorded = [(row["recipe"], row["task"], row["architecture"]) for row in rows]
    assert len(recorded) == len(set(recorded)) >= 120
    assert set(recorded) <= known


def _result(recipe: str, task: str, architecture: str) -> dict[str, str]:
    (combination,) = (
        c
        for c in matrix.combinations()
        if (c.recipe, c.task, c.architecture) == (recipe, task, architecture)
    )
    return matrix.in_child(combination, 300)


def test_the_matrix_has_the_architectures_of_all_tasks() -> None:
    combinations = list(matrix.combinations())
    assert len({c.architecture for c in combinations}) >= 120
    assert {c.task for c in combinations} == set(matrix.TASKS) - set(matrix.SKIPPED_TASKS)


def test_a_child_that_takes_too_long_or_dies_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    combination = next(matrix.combinations())
    monkeypatch.setattr(matrix, "attempt", lambda _: __import__("time").sleep(60))
    expected = {"result": "failed", "reason": "took more than 0.5 s"}
    assert matrix.in_child(combination, 0.5) == expected
    monkeypatch.setattr(matrix, "attempt", lambda _: __import__("os")._exit(3))
    expected = {"result": "failed", "reason": "the process ended with 3"}
    assert matrix.in_child(combination, 60) == expected
