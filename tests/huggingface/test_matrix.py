"""A sample of the matrix of transformers' architectures."""

from __future__ import annotations

import matrix
import pytest

SAMPLE = [
    ("automatic-speech-recognition", "moonshine"),
    ("fill-mask", "electra"),
    ("image-classification", "resnet"),
    pytest.param(
        "audio-classification", "audio-spectrogram-transformer", marks=pytest.mark.release
    ),
    pytest.param("audio-classification", "whisper", marks=pytest.mark.release),
    pytest.param("image-classification", "convnext", marks=pytest.mark.release),
]


@pytest.mark.parametrize(("task", "architecture"), SAMPLE)
def test_sample(task: str, architecture: str) -> None:
    (combination,) = (
        c for c in matrix.combinations() if (c.task, c.architecture) == (task, architecture)
    )
    assert matrix.in_child(combination, 300) == {"result": "ran"}


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
