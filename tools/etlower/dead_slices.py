"""Parts of an output that are dead, although the output as a whole is close to the eager model's.

One ratio for a tensor hides its parts: where boxes up to 640 and scores up to 1 have one scale of
8 bits, the output has 41 dB and all scores are 0. So an output is divided along each of its axes,
and each row is judged alone: it is weak if it is constant where the eager model's varies, or if its
ratio is below `_WEAK_DB` and `_GAP_DB` below the output's.

Honest programs must not fail, so signal and noise of a row are summed over all inputs of a method,
rows with few elements are judged together with the next ones, and what is as small as rounding
errors counts as nothing. It needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from etbuild.errors import listed

from etlower.arrays import Array

_WEAK_DB, _GAP_DB = 10.0, 20.0
# Rows with fewer elements for one input are joined with the next ones: inputs resemble each other.
_FEW = 16
# A row with so many for all inputs is judged alone, too, if it should vary that much.
_LEAST, _LEAST_VARIATION = 4, 0.25
# What counts as varying: the deviation in proportion to the row's size.
_VARIATION = 0.01
# Smallest deviation in proportion to the output's size, by type: rounding errors are below.
_FLOORS = {"bfloat16": 2e-2, "float16": 2e-3, "float32": 1e-5, "float64": 1e-5}

# Of each row of an axis: number of elements, for all inputs and for one, sums and extremes. By
# name: how two are joined, and the value that changes nothing.
_JOINS: Mapping[str, tuple[np.ufunc, float]] = {
    "count": (np.add, 0.0),
    "of_one": (np.maximum, 0.0),
    "total": (np.add, 0.0),
    "signal": (np.add, 0.0),
    "noise": (np.add, 0.0),
    "low": (np.minimum, math.inf),
    "high": (np.maximum, -math.inf),
    "expected_low": (np.minimum, math.inf),
    "expected_high": (np.maximum, -math.inf),
}
_Rows = dict[str, np.ndarray]


@dataclass(frozen=True)
class Weak:
    """Rows of an output that are dead or far worse than the output.

    Attributes:
      method: name of the method.
      output: number of the output.
      text: the place and what is wrong: "dim 1, rows 4 to 8: constant 0, where the eager model's
        vary from 0.01 to 0.84".
    """

    method: str
    output: int
    text: str


class Slices:
    """The outputs of a program and those of the eager model, summed along each axis."""

    def __init__(self) -> None:
        self._axes: dict[tuple[str, int, int, str], list[_Rows]] = {}

    def add(self, method: str, got: Sequence[object], expected: Sequence[object]) -> None:
        """Adds the outputs for one input.

        Args:
          method: its name.
          got: outputs of the program.
          expected: outputs of the eager model.
        """
        for number, (ours, theirs) in enumerate(zip(got, expected, strict=False)):
            if not isinstance(ours, Array) or not isinstance(theirs, Array):
                continue
            if ours.shape != theirs.shape or theirs.dtype not in _FLOORS or not theirs.data.size:
                continue
            axes = _axes(ours.doubles(), theirs.doubles())
            key = (method, number, len(axes), theirs.dtype)
            known = self._axes.get(key)
            self._axes[key] = list(map(_joined, known, axes)) if known else axes

    def weak(self) -> list[Weak]:
        """Returns what is weak, in the order of methods, outputs and axes."""
        return [
            Weak(method, number, text)
            for (method, number, _, dtype), axes in sorted(self._axes.items())
            for text in _of_output(axes, _FLOORS[dtype])
        ]


def _axes(got: np.ndarray, expected: np.ndarray) -> list[_Rows]:
    finite = np.isfinite(expected) & np.isfinite(got)
    ours, theirs = np.where(finite, got, 0.0), np.where(finite, expected, 0.0)
    parts: dict[str, tuple[np.ndarray, Callable[..., np.ndarray]]] = {
        "count": (finite.astype(float), np.sum),
        "of_one": (finite.astype(float), np.sum),
        "total": (theirs, np.sum),
        "signal": (theirs**2, np.sum),
        "noise": ((ours - theirs) ** 2, np.sum),
        "low": (ours, np.min),
        "high": (ours, np.max),
        "expected_low": (theirs, np.min),
        "expected_high": (theirs, np.max),
    }
    axes = range(expected.ndim)
    return [
        {
            name: reduce(values, axis=tuple(n for n in axes if n != axis))
            for name, (values, reduce) in parts.items()
        }
        for axis in axes
    ]


def _joined(one: _Rows, other: _Rows) -> _Rows:
    """The rows of two inputs, which may have different numbers of them."""
    length = max(len(one["count"]), len(other["count"]))

    def padded(rows: np.ndarray, value: float) -> np.ndarray:
        return np.pad(rows, (0, length - len(rows)), constant_values=value)

    return {
        name: join(padded(one[name], value), padded(other[name], value))
        for name, (join, value) in _JOINS.items()
    }


def _of_output(axes: Sequence[_Rows], floor: float) -> Iterator[str]:
    if not axes:
        return
    whole = _Part(axes[0], range(len(axes[0]["count"])))
    if not whole.noise:
        return
    smallest = floor * whole.size
    if whole.is_dead(smallest, _VARIATION):
        yield f"all of it: {whole.described(whole)}"
        return
    for dim, rows in enumerate(axes):
        if len(rows["count"]) < 2:
            continue
        weak = {n for part in _parts(rows) if part.is_weak(whole, smallest) for n in part.rows}
        if weak:
            runs = _runs(sorted(weak))
            yield f"dim {dim}, {_places(runs)}: {_Part(rows, runs[0]).described(whole)}"


class _Part:
    """Neighboring rows of an axis as one."""

    def __init__(self, axis: _Rows, rows: range) -> None:
        values = {
            name: float(join.reduce(axis[name][rows.start : rows.stop]))
            for name, (join, _) in _JOINS.items()
        }
        self._of_one = float(axis["of_one"][rows.start : rows.stop].sum())
        self.rows = rows
        self.count, self.noise, self.signal = values["count"], values["noise"], values["signal"]
        self.size = math.sqrt(self.signal / self.count) if self.count else 0.0
        mean = values["total"] / self.count if self.count else 0.0
        self._deviation = math.sqrt(max(self.size**2 - mean**2, 0.0))
        self._values = values

    @property
    def _ratio_db(self) -> float:
        if not self.noise:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    @property
    def _is_constant(self) -> bool:
        return self._values["low"] == self._values["high"]

    def is_dead(self, smallest: float, variation: float) -> bool:
        """Returns whether the program's are equal and the eager model's are not."""
        return self._is_constant and self._deviation > max(smallest, variation * self.size)

    def is_weak(self, whole: _Part, smallest: float) -> bool:
        """Returns whether it is dead, or its ratio is far below that of the output."""
        if self._of_one < _FEW:
            return self.count >= _LEAST and self.is_dead(smallest, _LEAST_VARIATION)
        if self.is_dead(smallest, _VARIATION):
            return True
        limit = min(_WEAK_DB, whole._ratio_db - _GAP_DB)
        return self._ratio_db < limit and self._deviation > max(smallest, _VARIATION * self.size)

    def described(self, whole: _Part) -> str:
        """Returns what is wrong."""
        if self._is_constant:
            low, high = self._values["expected_low"], self._values["expected_high"]
            return (
                f"constant {self._values['low']:.6g}, where the eager model's vary from {low:.6g} "
                f"to {high:.6g}"
            )
        return f"the SQNR is {self._ratio_db:.1f} dB, that of the output {whole._ratio_db:.1f} dB"


def _parts(rows: _Rows) -> Iterator[_Part]:
    """Neighboring rows that have enough elements together, and short rows alone."""
    counts = rows["of_one"]
    begin, elements = 0, 0.0
    for number, count in enumerate(counts):
        if count < _FEW:
            yield _Part(rows, range(number, number + 1))
        elements += count
        if elements >= _FEW:
            yield _Part(rows, range(begin, number + 1))
            begin, elements = number + 1, 0.0
    if begin < len(counts):
        yield _Part(rows, range(begin, len(counts)))


def _runs(rows: Sequence[int]) -> list[range]:
    """Numbers that follow each other as ranges."""
    runs: list[range] = []
    for row in rows:
        if runs and runs[-1].stop == row:
            runs[-1] = range(runs[-1].start, row + 1)
        else:
            runs.append(range(row, row + 1))
    return runs


def _places(runs: Sequence[range]) -> str:
    spans = [str(run.start) if len(run) == 1 else f"{run.start} to {run.stop - 1}" for run in runs]
    return ("row " if len(runs) == 1 and len(runs[0]) == 1 else "rows ") + listed(spans)
