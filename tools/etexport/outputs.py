"""How far a program's outputs are from those of the eager model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Tolerance:
    """How far an output may be from the eager model's.

    Attributes:
      atol: absolute part.
      rtol: part in proportion to the expected value.
      min_sqnr_db: smallest signal-to-quantization-noise ratio, in dB; None: not checked.
    """

    atol: float
    rtol: float
    min_sqnr_db: float | None = None


def leaves(value: Any) -> list[Any]:
    """The tensors and numbers of a nested value, in the order of a program's inputs or outputs."""
    return torch.utils._pytree.tree_leaves(value)


def difference(got: Any, expected: Any, tolerance: Tolerance, where: str) -> str:
    """Says how two outputs differ.

    Args:
      got: of the program: tensor or number.
      expected: of the eager model.
      tolerance: what is allowed.
      where: for the message.

    Returns:
      A sentence with the largest difference and its index; empty: they agree.
    """
    if not isinstance(expected, torch.Tensor):
        return "" if close(got, expected) else f"{where}: got {got}, expected {expected}"
    if not isinstance(got, torch.Tensor):
        return f"{where}: got a {type(got).__name__}, expected a tensor"
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return (
            f"{where}: got {tuple(got.shape)} {got.dtype}, expected {tuple(expected.shape)} "
            f"{expected.dtype}"
        )
    if not expected.numel():
        return ""
    left, right = got.double(), expected.double()
    distance = _distance(left, right)
    bad = distance > tolerance.atol + tolerance.rtol * right.abs().nan_to_num()
    sqnr = _sqnr_db(right, distance)
    print(f"{where}: largest difference {distance.max():.6g}, SQNR {sqnr:.1f} dB")
    parts = []
    if bad.any():
        index = tuple(int(i) for i in torch.unravel_index(distance.argmax(), distance.shape))
        parts.append(
            f"the largest difference is {distance.max():.6g} at {list(index)}: got "
            f"{float(left[index]):.6g}, expected {float(right[index]):.6g}; {int(bad.sum())} of "
            f"{bad.numel()} elements are outside of atol = {tolerance.atol:g}, rtol = "
            f"{tolerance.rtol:g}"
        )
    if tolerance.min_sqnr_db is not None and sqnr < tolerance.min_sqnr_db:
        parts.append(f"the SQNR is {sqnr:.1f} dB, expected {tolerance.min_sqnr_db:g} dB")
    return f"{where}: {'; '.join(parts)}" if parts else ""


def close(got: Any, expected: Any) -> bool:
    """Whether two numbers are equal, floats within rounding."""
    if isinstance(expected, float):
        return math.isclose(got, expected, rel_tol=1e-6)
    return got == expected


def sqnr_db(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Signal-to-quantization-noise ratio in dB of two tensors of one shape; infinite: no noise."""
    left, right = got.double(), expected.double()
    return _sqnr_db(right, _distance(left, right))


def _distance(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """How far apart elements are; infinitely, where only one side is NaN."""
    both_nan = left.isnan() & right.isnan()
    distance = torch.where(both_nan | (left == right), 0.0, (left - right).abs())
    return torch.where(distance.isnan(), math.inf, distance)


def _sqnr_db(expected: torch.Tensor, distance: torch.Tensor) -> float:
    noise = float((distance**2).sum())
    # Infinities that agree are no signal to measure against.
    signal = float((expected.nan_to_num(posinf=0.0, neginf=0.0) ** 2).sum())
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal and math.isfinite(noise) else -math.inf
