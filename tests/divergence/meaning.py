"""Meanings of the detector's outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def boxes(outputs: Sequence[np.ndarray]) -> np.ndarray:
    """The boxes of the grid, with corners in order."""
    rows = outputs[0].reshape(4, -1).T
    return np.concatenate(
        [np.minimum(rows[:, :2], rows[:, 2:]), np.maximum(rows[:, :2], rows[:, 2:])], 1
    )


def nearness(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """One less the largest difference."""
    return float(1 - np.abs(got[0] - expected[0]).max())
