"""Keeps from Arm's compilers what they fail on, and what TOSA does not have.

Upstream's checks (ExecuTorch 1.5.1) go by operators. Its passes, and vela and Arm's converter
behind them, fail on some arguments and neighbors. Which operator it is, is found by bisection
(etlower/refusals.py), and the next attempt lowers without it. So is what leaves a graph of TOSA
without an input, or with other results than the program's: some passes drop slices, or hand out 32
bits for 64. TOSA has no empty tensors: its reference model ends the process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from etbuild import BuildError
from etlower import exchanged, operators
from etlower.refusals import Refusals, Snapshot
from executorch.backends.arm.ethosu.backend import EthosUBackend
from executorch.backends.arm.operator_support.tosa_supported_operators import (
    SupportedTOSAOperatorCheck,
)
from executorch.backends.arm.tosa.backend import TOSABackend
from executorch.backends.arm.vgf.backend import VgfBackend
from torch.export.graph_signature import InputKind
from torch.fx.passes.operator_support import OperatorSupportBase
from tosa import TosaGraph
from tosa.DType import DType

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
        if self._refused.has(node) or operators.is_empty(node):
            return False
        return not (_approximates(node) or _rounds(node) or _pools_or_resizes_otherwise(node))


# Upstream writes them as polynomials, up to 2 off, rounds halves up, takes logarithms of softmax,
# which are infinite below -100, and adds a negative number to its own root.
_APPROXIMATE = frozenset({"_log_softmax", "acos", "asin", "asinh", "atan", "log1p", "round"})
_CASTS = frozenset({"_to_copy", "_to_dim_order_copy"})
_SMALL = frozenset({torch.int8, torch.int16, torch.uint8})


def _approximates(node: torch.fx.Node) -> bool:
    """Tells whether a function of floats would be an approximation; in 8 bits it is a table."""
    given = node.all_input_nodes
    is_table = any("dequantize" in operators.name(value) for value in given)
    return operators.packet(node) in _APPROXIMATE and not is_table


def _rounds(node: torch.fx.Node) -> bool:
    """Tells whether a cast of fractions would round them, where torch cuts them off."""
    results, given = operators.values(node), operators.inputs(node)
    if operators.packet(node) not in _CASTS or not results or not given:
        return False
    return results[0].dtype in _SMALL and given[0].is_floating_point()


def _pools_or_resizes_otherwise(node: torch.fx.Node) -> bool:
    """Tells whether upstream takes the ratio of sizes for a factor, or cuts windows off wrong."""
    name = operators.packet(node)
    if name == "upsample_bilinear2d":
        factors = node.args[-1]
        if not isinstance(factors, list | tuple) or not factors or isinstance(factors[0], int):
            return False
        sizes = (each.shape[-2:] for each in (node.args[0].meta["val"], node.meta["val"]))
        return any(m * f != n for m, n, f in zip(*sizes, factors, strict=True))
    if name not in _CEILING:
        return False
    place = _CEILING[name]
    if len(node.args) <= place or not node.args[place]:
        return False
    windows, steps = (
        [each] * 2 if isinstance(each, int) else [*each] * (2 // len(each))
        for each in (node.args[1], node.args[2] or node.args[1])
    )
    has_divisor = name == "avg_pool2d" and node.args[6:7] not in ((), (None,))
    return has_divisor or any(w < step for w, step in zip(windows, steps, strict=True))


# Where pooling has its ceil_mode.
_CEILING = {"avg_pool2d": 4, "max_pool2d": 5, "max_pool2d_with_indices": 5}


def install() -> None:
    """Has, for this process, upstream's backends find what they fail on."""
    for backend in (EthosUBackend, TOSABackend, VgfBackend):
        inner = backend.preprocess
        if not getattr(inner, "is_ours", False):
            backend.preprocess = staticmethod(_finding(inner, backend.__name__))
    inner = SupportedTOSAOperatorCheck.is_node_supported
    if not getattr(inner, "is_ours", False):
        SupportedTOSAOperatorCheck.is_node_supported = _surviving(inner)
    if not getattr(TOSABackend._preprocess, "is_ours", False):
        TOSABackend._preprocess = staticmethod(_fitting(TOSABackend._preprocess))


def exchange_rows(partitioner: Any) -> None:
    """Has parts get and give rows: what upstream makes of other orders is right for some sizes.

    Args:
      partitioner: upstream's.
    """
    inner = partitioner.partition

    def partition(program: Any) -> Any:
        result = inner(program)
        exchanged.fit(result.tagged_exported_program)
        return result

    partitioner.partition = partition


def _surviving(inner: Any) -> Any:
    def is_node_supported(self: Any, submodules: Any, node: torch.fx.Node) -> bool:
        try:
            return bool(inner(self, submodules, node))
        except Exception:  # On tensors without dimensions, for example.
            return False

    is_node_supported.is_ours = True  # type: ignore[attr-defined]
    return is_node_supported


def _fitting(inner: Any) -> Any:
    def preprocess(program: Any, spec: Any) -> Any:
        given = [s for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
        [output] = program.graph.find_nodes(op="output")
        expected = [(_dtype(v), _long(v.shape)) for v in operators.values(list(output.args[0]))]
        result = inner(program, spec)
        block = TosaGraph.TosaGraph.GetRootAs(result.processed_bytes, 0).Regions(0).Blocks(0)
        if block.InputsLength() != len(given):
            raise ValueError(f"TOSA has {block.InputsLength()} inputs, expected {len(given)}")
        tensors = [block.Tensors(n) for n in range(block.TensorsLength())]
        by_name = {tensor.Name(): tensor for tensor in tensors}
        results = [by_name[block.Outputs(n)] for n in range(block.OutputsLength())]
        got = [(_NAMES[tensor.Type()], _long(tensor.ShapeAsNumpy())) for tensor in results]
        if got != expected:
            raise ValueError(f"TOSA has the results {got}, expected {expected}")
        return result

    preprocess.is_ours = True  # type: ignore[attr-defined]
    return preprocess


_NAMES = {number: name.lower() for name, number in vars(DType).items() if name[0] != "_"}
_SHORT = {"float": "fp", "bfloat": "bf"}


def _dtype(value: torch.Tensor) -> str:
    """TOSA's name of a type: "fp32"."""
    name = str(value.dtype).removeprefix("torch.")
    return re.sub("^b?float", lambda found: _SHORT[found[0]], name)


def _long(shape: Any) -> list[int]:
    """Sizes above 1: TOSA has others for numbers."""
    return [int(size) for size in shape if size != 1]


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
