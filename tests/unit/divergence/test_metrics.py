"""Scores of tasks, on outputs with a known answer."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from etbuild import BuildError
from etlower import compare, metrics
from etlower.arrays import Array
from etlower.expected import Case

FLOATS = [np.array([[0.1, 0.9], [0.8, 0.2]], "float32")]
OTHERS = [np.array([[0.2, 0.7], [0.1, 0.2]], "float32")]


@pytest.mark.parametrize(
    ("metric", "got", "expected", "score"),
    [
        (metrics.top1, FLOATS, FLOATS, 1.0),
        (metrics.top1, OTHERS, FLOATS, 0.5),
        (metrics.top1, [np.zeros((1, 2))], FLOATS, 0.0),
        (metrics.cosine, FLOATS, FLOATS, 1.0),
        (metrics.cosine, [-FLOATS[0]], FLOATS, 0.0),
        (metrics.cosine, [np.full((2, 2), np.nan)], FLOATS, 0.0),
        (metrics.cosine, [2 * FLOATS[0], np.array([1, 0])], [FLOATS[0], np.array([0, 1])], 0.0),
        (metrics.tokens, [1, 2, 3], [1, 2, 4], 2 / 3),
        (metrics.tokens, [1, 2], [1, 2, 4, 5], 0.5),
        (metrics.tokens, [], [], 1.0),
        (metrics.word_accuracy, "the cat sat", "the cat sat", 1.0),
        (metrics.word_accuracy, "the hat sat", "the cat sat", 2 / 3),
        (metrics.word_accuracy, "cat", "the cat sat", 1 / 3),
        (metrics.word_accuracy, "a b c d e f", "x", 0.0),
        (metrics.word_accuracy, "", "", 1.0),
        (metrics.boxes, [[0, 0, 2, 2]], [[0, 0, 2, 2]], 1.0),
        (metrics.boxes, [[0, 0, 2, 1]], [[0, 0, 2, 2]], 0.5),
        (metrics.boxes, [], [[0, 0, 2, 2]], 0.0),
        (metrics.boxes, [], [], 1.0),
        (metrics.boxes, [[0, 0, 2, 2], [5, 5, 6, 6]], [[0, 0, 2, 2]], 0.5),
        (metrics.boxes, [[0, 0, 2, 2, 1]], [[0, 0, 2, 2, 2]], 0.0),
        (
            metrics.boxes,
            [[4, 4, 6, 6, 1], [0, 0, 2, 2, 0]],
            [[0, 0, 2, 2, 0], [4, 4, 6, 6, 1]],
            1.0,
        ),
    ],
)
def test_score(metric: Any, got: Any, expected: Any, score: float) -> None:
    assert metric(got, expected) == pytest.approx(score)


def test_tokens_are_the_largest_of_each_row() -> None:
    assert metrics.of_names("tokens", "", "//x:t")(OTHERS, FLOATS) == 0.5


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's functions."""
    (tmp_path / "my_metric.py").write_text(
        "def decode(outputs):\n    return outputs[0].round()\n"
        "def largest(got, expected):\n    return 1 - abs(got[0] - expected[0]).max()\n"
        "def broken(got, expected):\n    return got[7]\n"
        "def text(got, expected):\n    return 'good'\n"
        "def nothing(got, expected):\n    pass\n"
        "def not_a_number(got, expected):\n    return float('nan')\n"
        "def first(outputs):\n    return outputs[0]\n"
        "def rows(outputs):\n    return outputs[0].reshape(-1, 4)\n"
        "def words(outputs):\n    return ' '.join(str(round(float(v))) for v in outputs[0])\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("my_metric", None)
    return tmp_path


def options(root: Path, **more: Any) -> argparse.Namespace:
    words = ["--label=//x:t", "--program=p", "--manifest=m", "--expected=e", f"--root={root}"]
    return compare._parser().parse_args([*words, *(f"--{k}={v}" for k, v in more.items())])


def case(value: Any) -> Case:
    return Case("forward", 0, False, (), (Array("float32", np.asarray(value, "float32")),))


def test_users_function(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = options(user, metric="my_metric:largest", min=0.75)
    wanted, good, bad = case([1.0]), [case([0.8]).outputs], [case([0.6]).outputs]
    assert compare._scores(given, [wanted], good) == []
    [problem] = compare._scores(given, [wanted], bad)
    assert problem == 'method "forward": my_metric:largest is 0.6, expected 0.75 or more'
    assert "the least of a case 0.6" in capsys.readouterr().out


def test_decoded(user: Path) -> None:
    given = options(user, metric="tokens", decode="my_metric:decode", min=1)
    assert compare._scores(given, [case([1.0, 2.0])], [case([1.2, 1.8]).outputs]) == []
    assert compare._scores(given, [case([1.0, 2.0])], [case([1.2, 1.2]).outputs])


BOXES = [[0.0, 0.0, 2.0, 2.0], [4.0, 4.0, 6.0, 6.0]]


@pytest.mark.parametrize(
    ("more", "expected", "good", "bad"),
    [
        ({"metric": "top1"}, [[1, 3, 2]], [[1, 9, 2]], [[3, 1, 2]]),
        ({"metric": "top1"}, [[3, 1, 2]], [[9, 1, 2]], [[np.nan, np.nan, np.nan]]),
        ({"metric": "top1"}, [[1, 3, 2]], [[0, 1, 0]], [[1, 3]]),
        ({"metric": "cosine"}, [1, 2, 3], [2, 4, 6], [3, 2, 1]),
        ({"metric": "cosine"}, [1, 2, 3], [1, 2, 3], [1, 2, np.nan]),
        ({"metric": "tokens"}, [[1, 3], [4, 2]], [[0, 1], [1, 0]], [[3, 1], [4, 2]]),
        ({"metric": "tokens"}, [[9, 3], [4, 2]], [[2, 1], [1, 0]], [[np.nan, 1], [4, 2]]),
        (
            {"metric": "boxes", "decode": "my_metric:rows"},
            BOXES,
            BOXES[::-1],
            [BOXES[0], [8, 8, 9, 9]],
        ),
        (
            {"metric": "word_accuracy", "decode": "my_metric:words"},
            [1, 2, 3],
            [1.2, 2.1, 2.9],
            [1, 3, 3],
        ),
        ({"metric": "my_metric:largest"}, [1.0], [0.95], [0.5]),
    ],
)
def test_each_metric_passes_and_fails(
    more: dict[str, str], expected: Any, good: Any, bad: Any, user: Path
) -> None:
    given = options(user, min=0.9, **more)
    assert compare._scores(given, [case(expected)], [case(good).outputs]) == []
    [problem] = compare._scores(given, [case(expected)], [case(bad).outputs])
    assert problem.endswith("expected 0.9 or more")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"metric": "my_metric:no"}, 'metric: got "my_metric:no", which cannot be imported'),
        ({"metric": "none:f"}, "No module named 'none'"),
        ({"metric": "boxes"}, "decode is missing"),
        ({"metric": "my_metric:broken"}, "input 0: the metric failed: IndexError"),
        ({"metric": "my_metric:text"}, "input 0: the metric failed: ValueError"),
        ({"metric": "my_metric:nothing"}, "input 0: the metric failed: TypeError"),
        ({"metric": "my_metric:not_a_number"}, "the metric returned nan, expected a number"),
        (
            {"metric": "boxes", "decode": "my_metric:first"},
            r"boxes of \(1,\), expected \(count, 4\)",
        ),
        ({"metric": "boxes", "decode": "my_metric:no"}, 'decode: got "my_metric:no"'),
    ],
)
def test_metric_that_cannot_be_used(user: Path, more: dict[str, str], message: str) -> None:
    with pytest.raises(BuildError, match=message):
        compare._scores(options(user, **more), [case([1.0])], [case([1.0]).outputs])


def test_inputs_that_prove_little() -> None:
    def given(*values: Any) -> list[Case]:
        arrays = [Array("float32", np.asarray(v, "float32")) for v in values]
        return [Case("forward", n, False, (a,), ()) for n, a in enumerate(arrays)]

    assert (
        "are all zeros, so agreement proves little"
        in compare._proving_little(given([0, 0], [0, 0]))[0]
    )
    assert "are all ones" in compare._proving_little(given([1, 1]))[0]
    assert not compare._proving_little(given([0, 0], [0, 1]))
    assert not compare._proving_little([])
