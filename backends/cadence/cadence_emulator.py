"""Runs Cadence's kernels by upstream's references of them."""

from __future__ import annotations

import operator
import typing

from runner import torch_kernels


def install() -> None:
    """Registers the kernels."""
    torch_kernels.use_exporter()
    import typing_extensions

    # Upstream imports it from typing, which has it from Python 3.12 on.
    if not hasattr(typing, "override"):
        typing.override = typing_extensions.override
    import executorch.backends.cadence.aot.ops_registrations
    import executorch.backends.cadence.aot.ref_implementations  # noqa: F401

    # The references (1.5.1) divide by -multiplier / (1 << 31), as the kernels in C++ do, where that
    # is negative. In Python 1 << 31 is positive, so they need the other sign.
    torch_kernels.register_namespace("cadence", {"out_multiplier": operator.neg})
