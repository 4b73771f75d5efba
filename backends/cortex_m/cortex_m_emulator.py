"""Runs Cortex-M's kernels by upstream's references of them, which compute CMSIS-NN's numbers."""

from __future__ import annotations

import importlib
import types
from typing import Any

from runner import torch_kernels

# In this order: the operators import the passes, and these look for the operators.
_REFERENCES = ("passes.passes_utils", "ops.operators")


def install() -> None:
    """Registers the kernels."""
    torch_kernels.use_exporter()
    _, operators = (
        importlib.import_module(f"executorch.backends.cortex_m.{module}") for module in _REFERENCES
    )
    operators.F = _with_exact_convolutions(operators.F)
    torch_kernels.register_namespace("cortex_m")


def _with_exact_convolutions(functional: Any) -> Any:
    """torch.nn.functional, whose convolutions take dilated integers.

    Torch has no such kernel. Products and sums of 8-bit numbers are exact in doubles.
    """

    def conv2d(given: Any, weight: Any, bias: Any = None, **settings: Any) -> Any:
        whole = [value if value is None else value.double() for value in (given, weight, bias)]
        return functional.conv2d(*whole, **settings).to(given.dtype)

    return types.SimpleNamespace(**{**vars(functional), "conv2d": conv2d})
