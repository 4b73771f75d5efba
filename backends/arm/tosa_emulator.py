"""Runs TOSA programs in Arm's reference model, with floats and with whole numbers."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

import numpy as np
from runner import emulated


def install() -> None:
    """Registers the backend."""
    emulated.register_backend("TOSABackend", _make)


def _make(delegate: emulated.Delegate) -> emulated.Run:
    import tosa_reference_model
    from tosa import TosaGraph

    # The model's own handlers start a debugger, where the machine has one, and wait for it.
    for number in (signal.SIGABRT, signal.SIGSEGV):
        signal.signal(number, signal.SIG_DFL)

    graph = TosaGraph.TosaGraph.GetRootAs(delegate.payload, 0)
    count = graph.Regions(0).Blocks(0).InputsLength()
    valid = tosa_reference_model.GraphStatus.TOSA_VALID

    def run(values: Sequence[Any]) -> list[np.ndarray]:
        outputs, status = tosa_reference_model.run(
            delegate.payload,
            [np.ascontiguousarray(value) for value in values[:count]],
            verbosity="LOW",
            initialize_variable_tensor_from_numpy=True,
        )
        if status != valid:
            raise ValueError(f"Arm's reference model returned {status}, expected {valid}")
        expected = values[count:]
        return [np.reshape(got, out.shape) for got, out in zip(outputs, expected, strict=True)]

    return run
