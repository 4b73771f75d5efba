"""Compiles for OpenVINO, and leaves to ExecuTorch what its compiler fails on.

The list that OpenVINO's partitioner goes by has names of operators only. Its compiler fails on
arguments, types and neighbors, some of them on some processors only. Which operator it is, is found
by bisection (etlower/refusals.py); the next attempt lowers without it.
"""

from __future__ import annotations

from typing import Any

import openvino_guards
import openvino_reproducible
from etbuild import BuildError
from etlower.refusals import Snapshot
from etlower.replacing import replace
from executorch.backends.openvino import preprocess as upstream


def install() -> None:
    """Has, for this process, upstream's backend find what it fails on, and give the same bytes."""

    def preprocess(inner: Any, cls: Any, program: Any, specs: Any) -> Any:
        before = Snapshot.of(program)
        try:
            made = inner(cls, program, specs)
        except Exception as error:  # OpenVINO's errors have no common class.
            found = openvino_guards.refused.find(
                before, lambda part: inner(cls, part, specs), error
            )
            raise BuildError(
                f"OpenVINO's compiler fails on {found.what} It depends on this machine's "
                "processor.",
                "Write the layer otherwise (nn.MultiheadAttention or scaled_dot_product_attention "
                "for attention), or use another recipe for it (overrides).",
            ) from error
        made.processed_bytes = openvino_reproducible.normalized(made.processed_bytes)
        return made

    replace(upstream.OpenvinoBackend, "preprocess", preprocess)
