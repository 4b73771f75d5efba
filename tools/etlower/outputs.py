"""Compares a program's outputs with those of the eager model.

The one comparison: of tests, `et run`, `et evaluate` and the report's accuracy. It needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from etlower.arrays import Array, of_torch

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Tolerance:
    """The largest allowed distance of an output from the eager model's.

    Attributes:
      atol: absolute part, for each element; infinite: elements are not checked.
      rtol: part in proportion to the expected value.
      min_sqnr_db: smallest signal-to-quantization-noise ratio, in dB; None: not checked.
    """

    atol: float
    rtol: float
    min_sqnr_db: float | None = None


def leaves(value: Any) -> list[Any]:
    """The tensors and numbers of a nested value, in the order of a program's inputs or outputs."""
    import torch

    return torch.utils._pytree.tree_leaves(value)


def differences(
    got: Sequence[Any], expected: Sequence[Any], tolerance: Tolerance, where: str = ""
) -> list[str]:
    """Says how outputs differ: a sentence per output that does.

    Args:
      got: outputs of a run.
      expected: what they should be.
      tolerance: how far tensors of floats may be off.
      where: begins each sentence, such as the case's name; empty: the output's number does.
    """
    if len(got) != len(expected):
        return [f"{where + ': ' if where else ''}got {len(got)} outputs, expected {len(expected)}"]
    begin = f"{where}, output" if where else "output"
    pairs = enumerate(zip(got, expected, strict=True))
    lines = (difference(g, e, tolerance, f"{begin} {number}") for number, (g, e) in pairs)
    return [line for line in lines if line]


def difference(got: Any, expected: Any, tolerance: Tolerance, where: str) -> str:
    """Says how two outputs differ.

    Args:
      got: of the program: `Array` or number.
      expected: of the eager model.
      tolerance: what is allowed.
      where: for the message.

    Returns:
      A sentence with the largest difference and its index; empty: they agree.
    """
    if not isinstance(expected, Array):
        return "" if close(got, expected) else f"{where}: got {_shown(got)}, expected {expected}"
    if not isinstance(got, Array):
        return f"{where}: got a {type(got).__name__}, expected a tensor"
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return (
            f"{where}: got {got.shape} torch.{got.dtype}, expected {expected.shape} "
            f"torch.{expected.dtype}"
        )
    if not expected.data.size:
        return ""
    left, right = got.doubles(), expected.doubles()
    distance = _distance(left, right)
    bad = distance > tolerance.atol + tolerance.rtol * np.nan_to_num(np.abs(right))
    sqnr = _sqnr_db(right, distance)
    print(f"{where}: largest difference {distance.max():.6g}, SQNR {sqnr:.1f} dB")
    parts = []
    if bad.any():
        index = tuple(int(i) for i in np.unravel_index(distance.argmax(), distance.shape))
        parts.append(
            f"the largest difference is {distance.max():.6g} at {list(index)}: got "
            f"{left[index]:.6g}, expected {right[index]:.6g}; {int(bad.sum())} of "
            f"{bad.size} elements are outside of atol = {tolerance.atol:g}, rtol = "
            f"{tolerance.rtol:g}"
        )
    if tolerance.min_sqnr_db is not None and sqnr < tolerance.min_sqnr_db:
        parts.append(f"the SQNR is {sqnr:.1f} dB, expected {tolerance.min_sqnr_db:g} dB")
    return f"{where}: {'; '.join(parts)}" if parts else ""


def largest_difference(got: Any, expected: Any) -> float:
    """The largest distance between elements of two outputs; infinite: they differ in kind."""
    if not isinstance(expected, Array):
        got = got.item() if isinstance(got, Array) and got.data.size == 1 else got
        both = isinstance(got, float | int) and isinstance(expected, float | int)
        return abs(got - expected) if both else math.inf
    if not isinstance(got, Array) or got.shape != expected.shape:
        return math.inf
    distance = _distance(got.doubles(), expected.doubles())
    return float(distance.max()) if distance.size else 0.0


def constant_difference(got: Sequence[Any], expected: Sequence[Any], where: str) -> str:
    """Says how the outputs of a constant method differ, which must be the model's own.

    Args:
      got: of the program, flat.
      expected: of the model, flat.
      where: for the message.

    Returns:
      A sentence; empty: they are the same.
    """
    same = len(got) == len(expected) and all(map(_same, got, expected))
    if same:
        return ""
    shown = [_shown(value) for value in got], [_shown(value) for value in expected]
    return f"{where}: got {shown[0]}, expected {shown[1]}"


def close(got: Any, expected: Any) -> bool:
    """Tells whether two numbers are equal, floats within rounding."""
    if isinstance(got, Array):
        got = got.item() if got.data.size == 1 else None
    if isinstance(expected, float):
        return isinstance(got, float | int) and math.isclose(got, expected, rel_tol=1e-6)
    return got == expected


def sqnr_db(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Signal-to-quantization-noise ratio in dB of two tensors of one shape; infinite: no noise."""
    left, right = of_torch(got).doubles(), of_torch(expected).doubles()
    return _sqnr_db(right, _distance(left, right))


def _same(got: Any, expected: Any) -> bool:
    if not isinstance(expected, Array):
        return close(got, expected)
    return (
        isinstance(got, Array)
        and got.dtype == expected.dtype
        and np.array_equal(got.doubles(), expected.doubles())
    )


def _shown(value: Any) -> Any:
    return value.doubles().tolist() if isinstance(value, Array) else value


def _distance(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns the distances of elements; infinite, where only one side is NaN."""
    both_nan = np.isnan(left) & np.isnan(right)
    # Infinities of one sign differ by NaN, and do not count.
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.where(both_nan | (left == right), 0.0, np.abs(left - right))
    return np.where(np.isnan(distance), math.inf, distance)


def _sqnr_db(expected: np.ndarray, distance: np.ndarray) -> float:
    with np.errstate(over="ignore"):
        noise = float((distance**2).sum())
        # Infinities that agree are no signal to measure against.
        signal = float((np.nan_to_num(expected, posinf=0.0, neginf=0.0) ** 2).sum())
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal and math.isfinite(noise) else -math.inf
