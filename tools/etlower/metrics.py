"""Scores of a task: how far a program's outputs mean what the eager model's do.

A metric takes the outputs of one case, of the program and of the eager model, and returns a number
from 0 to 1; more is better. Where outputs have to be decoded first, a function of the user's does
that, for both sides: into boxes, tokens or a text. Nothing here needs torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from etbuild.errors import BuildError

from etlower.arrays import Array

Metric = Callable[[Sequence[Any], Sequence[Any]], float]
Decode = Callable[[Sequence[Any]], Any]


def top1(got: Sequence[Any], expected: Sequence[Any]) -> float:
    """The share of rows of the first output whose largest element is at the same index."""
    left, right = (np.asarray(side[0]) for side in (got, expected))
    if left.shape != right.shape or not right.ndim or not right.size:
        return 0.0
    return float((_largest(left) == _largest(right)).mean())


def _largest(rows: np.ndarray) -> np.ndarray:
    """Index of the largest element of each row; -1: there is NaN in it, or no element."""
    if not rows.shape[-1]:
        return np.full(rows.shape[:-1], -1)
    return np.where(np.isnan(rows).any(-1), -1, rows.argmax(-1))


def cosine(got: Sequence[Any], expected: Sequence[Any]) -> float:
    """The least cosine between an output and what is expected; 0: they point elsewhere."""
    return min((_cosine(g, e) for g, e in zip(got, expected, strict=True)), default=1.0)


def _cosine(got: Any, expected: Any) -> float:
    left, right = (np.asarray(value, "float64").reshape(-1) for value in (got, expected))
    if left.shape != right.shape or not np.isfinite(left).all():
        return 0.0
    lengths = float(np.linalg.norm(left) * np.linalg.norm(right))
    if not lengths:
        return float(not left.any() and not right.any())
    return max(0.0, float(left @ right) / lengths)


def boxes(got: Any, expected: Any) -> float:
    """The mean overlap (IoU) of boxes, each with the best one of its class that is left.

    Args:
      got: (count, 4) or more columns: x1, y1, x2, y2, and the class.
      expected: the same. Boxes that only one side has count as 0.
    """
    left, right = (_rows(side) for side in (got, expected))
    most = max(len(left), len(right))
    if not len(left) or not len(right):
        return float(not most)
    overlaps = _overlaps(left, right)
    total = 0.0
    for _ in range(min(overlaps.shape)):
        row, column = np.unravel_index(overlaps.argmax(), overlaps.shape)
        total += float(overlaps[row, column])
        overlaps[row, :] = overlaps[:, column] = 0.0
    return total / most


def _rows(side: Any) -> np.ndarray:
    values = np.asarray(side, "float64")
    if values.size and (values.ndim < 2 or values.shape[-1] < 4):
        raise ValueError(f"boxes of {values.shape}, expected (count, 4) or more columns")
    return values.reshape(-1, values.shape[-1]) if values.size else values


def _overlaps(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    low = np.maximum(left[:, None, :2], right[None, :, :2])
    high = np.minimum(left[:, None, 2:4], right[None, :, 2:4])
    common = (high - low).clip(0).prod(-1)
    areas = [(side[:, 2:4] - side[:, :2]).clip(0).prod(-1) for side in (left, right)]
    union = areas[0][:, None] + areas[1][None] - common
    ratios = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
    if left.shape[1] > 4 and right.shape[1] > 4:
        ratios = np.where(left[:, None, 4] == right[None, :, 4], ratios, 0.0)
    return ratios


def tokens(got: Any, expected: Any) -> float:
    """The share of tokens that are the same at their position; missing ones are not."""
    left, right = (np.asarray(side).reshape(-1) for side in (got, expected))
    most = max(len(left), len(right))
    both = min(len(left), len(right))
    return float((left[:both] == right[:both]).sum()) / most if most else 1.0


def word_accuracy(got: Any, expected: Any) -> float:
    """One less the word error rate: words to change, add or remove, for each that is expected."""
    left, right = str(got).split(), str(expected).split()
    row = list(range(len(left) + 1))
    for number, word in enumerate(right, 1):
        previous, row = row, [number]
        for column, other in enumerate(left, 1):
            change = previous[column - 1] + (word != other)
            row.append(min(change, previous[column] + 1, row[-1] + 1))
    return max(0.0, 1 - row[-1] / len(right)) if right else float(not left)


def _ids(outputs: Sequence[Any]) -> np.ndarray:
    """Tokens of outputs that are not decoded: whole numbers, or the largest of each row."""
    first = np.asarray(outputs[0])
    return _largest(first) if first.dtype.kind == "f" and first.ndim else first


# Takes outputs as they are; and what is decoded, with the way to do that by default.
OF_OUTPUTS: dict[str, Metric] = {"cosine": cosine, "top1": top1}
OF_DECODED: dict[str, tuple[Metric, Decode | None]] = {
    "boxes": (boxes, None),
    "tokens": (tokens, _ids),
    "word_accuracy": (word_accuracy, None),
}


def of_names(metric: str, decode: str, label: str) -> Metric:
    """The metric of a target.

    Args:
      metric: one of this module's, or "module:function".
      decode: "module:function", or empty.
      label: of the target, for messages.

    Raises:
      BuildError: there is no such function, or it needs another one.
    """
    if metric in OF_OUTPUTS:
        return OF_OUTPUTS[metric]
    if metric in OF_DECODED:
        score, default = OF_DECODED[metric]
        decoder = _load(decode, label, "decode") if decode else default
        if decoder is None:
            raise BuildError(
                f'{label}: metric = "{metric}" compares what outputs are decoded to: decode is '
                "missing.",
                'Give decode = "module:function", which takes the outputs as arrays.',
            )
        return lambda got, expected: score(decoder(got), decoder(expected))
    return _load(metric, label, "metric")


def _load(name: str, label: str, attribute: str) -> Any:
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise BuildError(
            f'{label}: {attribute}: got "{name}", which cannot be imported: {error}.',
            'Write it as "module:function" of a file in metric_srcs; it may import numpy.',
        ) from error


def score(metric: Metric, got: Sequence[Any], expected: Sequence[Any], where: str) -> float:
    """The score of a case.

    Args:
      metric: as `of_names` returns it.
      got: outputs of the program.
      expected: of the eager model.
      where: the case, for messages.

    Raises:
      BuildError: the metric failed, or returned no number.
    """
    sides = [[v.data if isinstance(v, Array) else v for v in side] for side in (got, expected)]
    try:
        value = float(metric(*sides))
    except Exception as error:
        raise BuildError(
            f"{where}: the metric failed: {type(error).__name__}: {error}.",
            "It takes two lists of arrays, of the program and of the eager model.",
        ) from error
    if not np.isfinite(value):
        raise BuildError(f"{where}: the metric returned {value}, expected a number.")
    return value
