"""Measures the noise in an output."""

from __future__ import annotations

import numpy as np


def decibels(expected: np.ndarray, got: np.ndarray) -> float:
    """The signal-to-noise ratio in dB."""
    assert expected.shape == got.shape and expected.dtype == got.dtype
    noise = np.mean((expected.astype(np.float64) - got) ** 2)
    return float(10 * np.log10(np.mean(expected.astype(np.float64) ** 2) / max(noise, 1e-30)))
