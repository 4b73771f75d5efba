"""Runs Cortex-M's kernels by upstream's references of them, which compute CMSIS-NN's numbers."""

from __future__ import annotations

import importlib

from runner import torch_kernels

# In this order: the operators import the passes, and these look for the operators.
_REFERENCES = ("passes.passes_utils", "ops.operators")


def install() -> None:
    """Registers the kernels."""
    torch_kernels.use_exporter()
    for module in _REFERENCES:
        importlib.import_module(f"executorch.backends.cortex_m.{module}")
    torch_kernels.register_namespace("cortex_m")
