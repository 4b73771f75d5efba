"""Compiles for OpenVINO, and leaves to ExecuTorch what its compiler fails on.

The list that OpenVINO's partitioner goes by has names of operators only. Its compiler fails on
arguments, types and neighbors, some of them on some processors only. Which operator it is, is found
by bisection (etlower/refusals.py); the next attempt lowers without it.
"""

from __future__ import annotations

from typing import Any

import openvino_guards
import openvino_reproducible
from etbuild import BuildError, LowerAgain
from etlower import operators
from etlower.refusals import Snapshot
from executorch.backends.openvino import preprocess as upstream

# Operators of a model that its compiler refuses, one after the other, until the build fails.
_MOST_REFUSED = 24


def install() -> None:
    """Has, for this process, upstream's backend find what it fails on, and give the same bytes."""
    inner = upstream.OpenvinoBackend.preprocess
    if getattr(inner, "is_ours", False):
        return

    def preprocess(cls: Any, program: Any, specs: Any) -> Any:
        before = Snapshot.of(program)
        try:
            made = inner(program, specs)
        except Exception as error:  # OpenVINO's errors have no common class.
            _leave_out(before, lambda part: inner(part, specs), error)
            raise
        made.processed_bytes = openvino_reproducible.normalized(made.processed_bytes)
        return made

    preprocess.is_ours = True  # type: ignore[attr-defined]
    upstream.OpenvinoBackend.preprocess = classmethod(preprocess)


def _leave_out(before: Snapshot, compiler: Any, error: Exception) -> None:
    """Asks for another attempt without the operator that the compiler fails on.

    Raises:
      LowerAgain: it is left to ExecuTorch in the next attempt.
      BuildError: no operator is found, or too many were left out.
    """

    def compiles(program: Any) -> bool:
        try:
            compiler(program)
        except Exception:
            return False
        return True

    node = before.first_refused(compiles)
    refused = openvino_guards.refused
    key = openvino_guards.key_of(node) if node is not None else None
    if key is not None and key not in refused and len(refused) < _MOST_REFUSED:
        refused.add(key)
        raise LowerAgain
    said = str(error).strip().splitlines()[-1].strip().rstrip(".")
    names = {operators.name(each) for each in before.graph.nodes}
    own = sorted(n.removeprefix("aten.") for n in names if n.startswith("aten."))
    raise BuildError(
        f"OpenVINO's compiler fails on a part with {', '.join(own)}: {said}. It depends on this "
        "machine's processor.",
        "Write the layer otherwise (nn.MultiheadAttention or scaled_dot_product_attention for "
        "attention), or use another recipe for it (overrides).",
    ) from error
