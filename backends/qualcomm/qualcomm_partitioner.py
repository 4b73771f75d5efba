"""A partitioner for QNN, with refusals that say why.

Upstream's does the work. What is added here:

- State goes to QNN where one partition of the only method uses it. Upstream hands it to one of
  several partitions, or to a copy of each method, of which only one would see a change.
- Each partition makes its weights itself, of the integers and scales that it shares with others.
- What QNN refuses stays with ExecuTorch: operators that upstream's builders fail on, those with
  which a partition does not compile (etlower/refusals.py), results that the runtime would get
  wrong (`_stays`). Operators that are kept whole for QNN, and that it refuses, are decomposed in
  another attempt. What has no decomposition is an error with the operator, its inputs and its
  layer, not with upstream's names of passes.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import qualcomm_compiler
import qualcomm_scales
import qualcomm_squares
import torch
from etbuild import BuildError, LowerAgain
from etlower import (
    asked_infinities,
    exchanged,
    guarded_logarithms,
    operators,
    own_elements,
    partition_tags,
)
from executorch.backends.qualcomm.partition import qnn_partitioner
from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from qualcomm_counted import is_counted_otherwise
from qualcomm_differences import (
    becomes_whole,
    is_cast,
    is_computed_otherwise,
    is_other_order,
    reads_behind,
    scales_rows,
)
from qualcomm_partitions import (
    has_inputs,
    leave_constants,
    own_weights,
    readers,
    take_state,
)
from qualcomm_slices import has_windows_elsewhere

# Operators of a model that its compiler refuses, one after the other, until the build fails.
_MOST_REFUSED = 24


class Partitioner(qnn_partitioner.QnnPartitioner):
    """Upstream's partitioner; see the module.

    Args:
      label: of the recipe, for messages.
      chip: name of the chip, for messages.
      specs: the compile specs.
      has_floats: whether the recipe leaves floats to QNN, so that the chip must take them.
      skip_node_op_set: names of operators that QNN doesn't get.
      skip_mutable_buffer: whether state stays with ExecuTorch.
    """

    def __init__(
        self,
        label: str,
        chip: str,
        specs: qualcomm_compiler.Specs,
        *,
        has_floats: bool,
        **skipped: Any,
    ) -> None:
        super().__init__(specs.alone, **skipped)
        self._label = label
        self._chip = chip
        self._specs = specs
        self._has_floats = has_floats
        # Learned in former attempts: calls to decompose, and nodes with which nothing compiles.
        self._decomposed: set[_Call] = set()
        self._refused: set[tuple[str, str]] = set()
        self._constants: set[torch.fx.Node] = set()
        # Functions of floats whose infinities the model asks for, as HTP has a largest number
        # instead, logarithms of numbers that are too small for it, and comparisons of numbers
        # with themselves; beside what has scales, squares that are too large for it.
        self._of_wide_floats: set[torch.fx.Node] = set()

    def partition(self, edge_program: torch.export.ExportedProgram) -> Any:
        """Partitions a method; see upstream's class."""
        qualcomm_compiler.refused = self.leave_out
        self.compiler_specs_snapshot = self._specs.chosen()
        backend = type(self.delegation_spec)
        self.delegation_spec = backend(
            self.delegation_spec.backend_id, self.compiler_specs_snapshot
        )
        manager = qualcomm_compiler.manager_of(self.backend, self.compiler_specs_snapshot)
        if self._has_floats and not qualcomm_compiler.takes_floats(manager):
            raise BuildError(
                f'{self._label}: soc_model: got "{self._chip}", whose HTP takes no 16-bit floats: '
                "QNN refuses them.",
                "Use int8, a16w8 or a16w4, or name a chip from Snapdragon 8 Gen 1 (SM8450) on.",
            )
        keeps_state = self.skip_mutable_buffer or len(self._specs.methods) > 1
        self.skip_mutable_buffer = True
        result = super().partition(edge_program)
        self.skip_mutable_buffer = keeps_state
        if not keeps_state:
            take_state(edge_program)
        return result

    def tag_nodes(self, partitions: list[Any], edge_program: torch.export.ExportedProgram) -> None:
        """As upstream's, which fails without partitions."""
        if partitions:
            super().tag_nodes(partitions, edge_program)

    def generate_partitions(self, edge_program: torch.export.ExportedProgram) -> list[Any]:
        """Finds partitions; without what only computes constants, which QNN cannot hand out."""
        constants = operators.stored(edge_program)
        self._constants = operators.following(edge_program.graph.nodes, constants)

        def number_of(value: Any) -> float | None:
            return operators.number_of(edge_program, value)

        asked = asked_infinities.asked(edge_program.graph, number_of)
        self._of_wide_floats = asked | asked_infinities.readers(asked)
        self._of_wide_floats |= own_elements.compared(edge_program.graph)
        if self._has_floats:
            self._of_wide_floats |= guarded_logarithms.calls(edge_program.graph, number_of)
        else:
            self._of_wide_floats |= qualcomm_squares.following(edge_program.graph)
        with _refusing(self._stays):
            partitions = super().generate_partitions(edge_program)
        with exchanged.results_named(edge_program):
            for partition in partitions:
                leave_constants(partition, constants)
        for partition in partitions:
            self._constants |= own_weights(partition)
        return [
            partition
            for partition in partitions
            if has_inputs(partition, constants) and partition_tags.is_read(partition)
        ]

    def _stays(self, node: torch.fx.Node) -> bool:
        """Tells of a node that QNN would take whether ExecuTorch computes it."""
        if (node.name, operators.name(node)) in self._refused:
            return True
        if is_other_order(node) or is_computed_otherwise(node):
            return True
        if scales_rows(node) or has_windows_elsewhere(node):
            return True
        if QCOM_QUANT_ATTRS not in node.meta and (
            # What the recipe gives no scale may have been infinite while it was calibrated.
            node in self._of_wide_floats
            or (operators.packet(node) == "pow" and not self._has_floats)
            or reads_behind(node)
        ):
            return True
        if is_cast(node):
            given = node.all_input_nodes[0].meta["val"].dtype
            # QNN takes whole numbers for those that stand for fractions.
            becomes_quantized = QCOM_QUANT_ATTRS in node.meta and not given.is_floating_point
            return becomes_quantized or becomes_whole(node)
        if QCOM_QUANT_ATTRS in node.meta and is_counted_otherwise(node):
            return True
        if qualcomm_scales.are_mixed(node, self._constants):
            return True
        # QNN counts with 32 bits, and the runtime would read 64 of them.
        results = node.meta["val"] if _has_several(node) else ()
        read = operators.read_results(node)
        return any(
            isinstance(result, torch.Tensor) and result.dtype == torch.int64 and n in read
            for n, result in enumerate(results)
        )

    def leave_out(self, node: torch.fx.Node, said: str) -> None:
        """Asks for another attempt, without an operator that QNN's compiler refuses.

        Args:
          node: the operator in its partition.
          said: what the compiler said.

        Raises:
          LowerAgain: it is left to ExecuTorch in the next attempt.
          BuildError: that was so already, or too much was left out.
        """
        keys = {(reader.name, operators.name(reader)) for reader in readers(node)}
        if keys <= self._refused or len(self._refused) >= _MOST_REFUSED:
            raise BuildError(
                f"{self._label}: QNN's compiler for {self._chip} refuses "
                f"{_call_in_words(node)}: {said}.",
                "Write the layer with other operators, or use another recipe for it (overrides).",
            )
        self._refused |= keys
        raise LowerAgain

    def ops_to_not_decompose(self, ep: torch.export.ExportedProgram) -> Any:
        """Operators that QNN takes whole; see upstream's class.

        Upstream calls it once more with what was lowered, to look for such operators that are left.
        """
        whole, keeps = super().ops_to_not_decompose(ep)
        kept = set(whole)

        def checked(node: torch.fx.Node) -> bool:
            if isinstance(node.target, EdgeOpOverload):
                return node.target._op in kept and self._must_be_taken(node)
            return keeps(node) and _Call.of(node) not in self._decomposed

        return whole, checked

    def _must_be_taken(self, node: torch.fx.Node) -> bool:
        """Handles an operator that was kept whole for QNN and is left in the program.

        Returns:
          False: ExecuTorch's kernels take it. Upstream fails on it otherwise.

        Raises:
          LowerAgain: it is decomposed in the next attempt.
          BuildError: it has no decomposition, and no kernel.
        """
        op, call = node.target._op, _Call.of(node)
        if "quantize" in operators.name(node):
            return True
        if _has_kernel(op):
            return False
        if call not in self._decomposed and _has_decomposition(op):
            self._decomposed.add(call)
            raise LowerAgain
        raise BuildError(
            f"{self._label}: QNN on {self._chip} refuses {_call_in_words(node)}, and ExecuTorch "
            "keeps it whole for QNN, so its own kernels cannot run it.",
            "Change types or sizes to what QNN takes, write the layer with other operators, or use "
            "another recipe for it (overrides).",
        )


@dataclasses.dataclass(frozen=True)
class _Call:
    """Calls of an operator by one layer on inputs of the same shapes.

    Nodes have other names before and after they are decomposed, and 64-bit integers become others.
    """

    operator: str
    layer: str
    shapes: str

    @staticmethod
    def of(node: torch.fx.Node) -> _Call:
        shapes = operators.inputs_of(node).replace("int64", "int32")
        return _Call(operators.name(node), operators.module_of(node), shapes)


@contextlib.contextmanager
def _refusing(stays: Callable[[torch.fx.Node], bool]) -> Iterator[None]:
    """Makes upstream's check of operators refuse more: `stays`, and what it fails on itself.

    Upstream makes what it asks the compiler about; of what is refused, no scale stays on inputs.
    """
    checker = qnn_partitioner.QnnOperatorSupport
    supported = checker.is_node_supported

    def is_node_supported(self: Any, modules: Any, node: torch.fx.Node) -> bool:
        scales = {given: given.meta.get(QCOM_QUANT_ATTRS) for given in node.all_input_nodes}
        try:
            taken = bool(supported(self, modules, node))
        except qualcomm_compiler.FAILURES:
            taken = False
        if taken and not (node.op == "call_function" and stays(node)):
            return True
        for given, scale in scales.items():
            given.meta.pop(QCOM_QUANT_ATTRS, None)
            if scale is not None:
                given.meta[QCOM_QUANT_ATTRS] = scale
        return False

    checker.is_node_supported = is_node_supported
    try:
        yield
    finally:
        checker.is_node_supported = supported


def _has_several(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), tuple | list)


def _has_kernel(op: Any) -> bool:
    """Tells whether the runtime has a kernel of its own for an operator."""
    from executorch.extension.pybindings import portable_lib

    overload = op._overloadname
    names = {f"{op._schema.name}.out", f"{op._schema.name}.{overload}_out"}
    return not names.isdisjoint(portable_lib._get_operator_names())


def _has_decomposition(op: Any) -> bool:
    from torch.export import default_decompositions

    # What torch composes of others is decomposed unless it is kept whole.
    return op in default_decompositions() or op._can_decompose()


def _call_in_words(node: torch.fx.Node) -> str:
    layer = operators.module_of(node)
    where = f' in the layer "{layer}"' if layer else ""
    call = f"{operators.name(node)}({operators.inputs_of(node)})"
    return f"the operator {call}{where}{operators.at_line(node)}"
