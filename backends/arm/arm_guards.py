"""Keeps from Arm's compilers what they fail on, and what TOSA does not have.

Upstream's checks (ExecuTorch 1.5.1) go by operators. Its passes, and vela and Arm's converter
behind them, fail on some arguments and neighbors. Which operator it is, is found by bisection
(etlower/refusals.py), and the next attempt lowers without it. TOSA has no empty tensors: its
reference model ends the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from etbuild import BuildError
from etlower import operators
from etlower.refusals import Refusals, Snapshot
from executorch.backends.arm.ethosu.backend import EthosUBackend
from executorch.backends.arm.tosa.backend import TOSABackend
from executorch.backends.arm.vgf.backend import VgfBackend
from torch.fx.passes.operator_support import OperatorSupportBase

# The last partitioner's.
_refused = Refusals()


class Taken(OperatorSupportBase):
    """A check beside those of upstream's partitioner."""

    def __init__(self) -> None:
        self._refused = Refusals()

    def is_node_supported(
        self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node
    ) -> bool:
        """As upstream's."""
        global _refused
        _refused = self._refused
        return not self._refused.has(node) and not operators.is_empty(node)


def install() -> None:
    """Has, for this process, upstream's backends find what they fail on."""
    for backend in (EthosUBackend, TOSABackend, VgfBackend):
        inner = backend.preprocess
        if not getattr(inner, "is_ours", False):
            backend.preprocess = staticmethod(_finding(inner, backend.__name__))


def _finding(inner: Any, name: str) -> Any:
    def preprocess(program: Any, specs: Any) -> Any:
        before = Snapshot.of(program)
        try:
            return inner(program, specs)
        except BuildError:
            raise
        except Exception as error:  # Those of passes have no common class.
            found = _refused.find(before, lambda part: inner(part, specs), error)
            raise BuildError(
                f"Arm's compiler ({name}) fails on {found.what}",
                "Write the layer with other operators, or use another recipe for it (overrides).",
            ) from error

    preprocess.is_ours = True  # type: ignore[attr-defined]
    return preprocess
