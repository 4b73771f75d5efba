"""Runs programs of the team's backend on a machine that has none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from runner import emulated


def install() -> None:
    """Registers the backend."""
    emulated.register_backend("DoublerBackend", load)


def load(delegate: emulated.Delegate) -> emulated.Run:
    """Reads the payload, which says how often the input is doubled."""
    word, count = delegate.payload.split()
    if word != b"double":
        raise ValueError(f"the payload begins with {word!r}, expected b'double'")

    def run(values: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [values[0] * np.float32(2 ** int(count))]

    return run
