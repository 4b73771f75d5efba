"""Converts for Core ML, and leaves to ExecuTorch what coremltools fails on.

Upstream's partitioner goes by names of operators, which coremltools may know and fail on for some
arguments. Which operator it is, is found by bisection (etlower/refusals.py); the next attempt
leaves operators of that name to ExecuTorch.
"""

from __future__ import annotations

from typing import Any

from etbuild import BuildError, LowerAgain
from etlower import constant_results, exchanged, operators
from etlower.refusals import Snapshot, succeeding
from etlower.replacing import replace
from executorch.backends.apple.coreml.compiler import coreml_preprocess as upstream
from torch.export import ExportedProgram

# Operators of a model that coremltools refuses, one after the other, until the build fails.
_MOST_REFUSED = 24

# Names of the last recipe's partitioner; None: it hands over the whole graph.
_skipped: list[str] | None = None


def install(partitioner: Any) -> None:
    """Has, for this process, upstream's backend find what it fails on.

    Args:
      partitioner: of the recipe; the names of what Core ML doesn't get are added to its list.
    """
    global _skipped
    constant_results.leave(partitioner)
    _skipped = None
    if not partitioner.lower_full_graph:
        _skipped = partitioner.skip_ops_for_coreml_delegation
        _hand_rows(partitioner)

    def convert(inner: Any, program: Any, *given: Any, **named: Any) -> Any:
        before = Snapshot.of(program)
        try:
            return inner(program, *given, **named)
        except Exception as error:  # Its errors have no common class.
            _leave_out(before, lambda part: inner(part, *given, **named), error)
            raise

    replace(upstream.CoreMLBackend, "_convert_to_mlmodel", convert)


def _hand_rows(partitioner: Any) -> None:
    """Hands parts tensors in rows: coremltools takes no others."""
    inner = partitioner.partition

    def partition(program: ExportedProgram) -> Any:
        result = inner(program)
        exchanged.fit(program)
        return result

    partitioner.partition = partition


def _leave_out(before: Snapshot, converter: Any, error: Exception) -> None:
    """Asks for another attempt without the operator that coremltools fails on.

    Raises:
      LowerAgain: it is left to ExecuTorch in the next attempt.
      BuildError: no operator is found, or too many were left out, or none may be.
    """
    node = before.first_refused(succeeding(converter))
    name = getattr(node.target, "__name__", "").lower() if node is not None else ""
    if name and _skipped is not None and name not in _skipped and len(_skipped) < _MOST_REFUSED:
        _skipped.append(name)
        raise LowerAgain
    said = (str(error).strip().splitlines() or ["no message"])[0].rstrip(".")
    call = "a part"
    if node is not None:
        call = f"{operators.name(node)}{operators.place_of(node)} on {operators.inputs_of(node)}"
    raise BuildError(
        f"Core ML's converter (coremltools) fails on {call}: {said}.",
        "Write the layer otherwise, use another recipe for it (overrides), or leave "
        "lower_full_graph out.",
    ) from error
