"""The kernels of Cortex-M that quantize and dequantize; programs of Arm's NPUs have them, too."""

from __future__ import annotations

import numpy as np
from etbuild.dtypes import DTYPES
from runner import emulated

_BY_NUMBER = {dtype.scalar_type: dtype.numpy for dtype in DTYPES if dtype.numpy}


def install() -> None:
    """Registers the kernels."""
    emulated.register_kernel("cortex_m::quantize_per_tensor.out", quantize)
    emulated.register_kernel("cortex_m::dequantize_per_tensor.out", dequantize)


def quantize(
    values: np.ndarray, scale: float, zero_point: int, low: int, high: int, dtype: int
) -> np.ndarray:
    """The nearest steps of `scale`, halves to even, from `low` to `high`, of a ScalarType."""
    steps = np.rint(values * np.float32(1 / scale)) + np.float32(zero_point)
    return np.clip(steps, low, high).astype(_BY_NUMBER[dtype])


def dequantize(
    steps: np.ndarray, scale: float, zero_point: int, _low: int, _high: int, _dtype: int
) -> np.ndarray:
    """The numbers that steps stand for, as float32."""
    return (steps.astype(np.float32) - np.float32(zero_point)) * np.float32(scale)
