"""How much of an output is noise."""

from __future__ import annotations

import numpy as np


def decibels(wanted: np.ndarray, got: np.ndarray) -> float:
    """Signal to noise."""
    assert wanted.shape == got.shape and wanted.dtype == got.dtype
    noise = np.mean((wanted.astype(np.float64) - got) ** 2)
    return float(10 * np.log10(np.mean(wanted.astype(np.float64) ** 2) / max(noise, 1e-30)))
