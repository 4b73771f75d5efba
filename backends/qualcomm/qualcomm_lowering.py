"""Lowering for QNN: one backend of QNN, contexts by sharing, refusals that say why.

Upstream's partitioner and `preprocess` do the work. What is added here:

- QNN's backend, which takes 20 ms to start, lives as long as the process. Upstream's
  own entry point keeps one (QnnManagerContext); through `ExportSession`, which recipes use, each
  partitioner and each partition would start another.
- Methods go into one context where they share weights, and into contexts of their own otherwise.
  Upstream puts all methods into one, and fails where they have different numbers of partitions.
- State goes to QNN where one partition of the only method uses it. Upstream hands it to one of
  several partitions, or to a copy of each method, of which only one would see a change.
- What QNN refuses, and ExecuTorch has no kernel for, is an error with the operator, its inputs and
  its layer, not with upstream's names of passes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import qualcomm_reproducible
import torch
from etbuild import BuildError
from executorch.backends.qualcomm import qnn_preprocess
from executorch.backends.qualcomm.partition import qnn_partitioner
from executorch.backends.qualcomm.utils.qnn_manager_lifecycle import QnnManagerRegistry
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.dialects.edge._ops import EdgeOpOverload

# QNN's own backends, by the options that they were started with.
_managers: dict[bytes, Any] = {}


@dataclasses.dataclass
class Specs:
    """Upstream's compile specs for a program, once its methods are known.

    Attributes:
      alone: without shared weights.
      shared: with.
      sharing: whether several methods share weights.
      methods: names of the methods that were exported.
    """

    alone: list[CompileSpec]
    shared: list[CompileSpec]
    sharing: bool
    methods: set[str] = dataclasses.field(default_factory=set)

    def note(self, method: str, program: Any) -> Any:
        """Takes note of a method: a pass for `ExportRecipe.aten_transform_passes`."""
        self.methods.add(method)
        return program

    def chosen(self) -> list[CompileSpec]:
        """Returns the specs for the methods noted."""
        several = len(self.methods) > 1
        return self.shared if several and self.sharing else self.alone


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
        self, label: str, chip: str, specs: Specs, *, has_floats: bool, **skipped: Any
    ) -> None:
        super().__init__(specs.alone, **skipped)
        self._label = label
        self._chip = chip
        self._specs = specs
        self._has_floats = has_floats

    def partition(self, edge_program: torch.export.ExportedProgram) -> Any:
        """Partitions a method; see upstream's class."""
        self.compiler_specs_snapshot = self._specs.chosen()
        backend = type(self.delegation_spec)
        self.delegation_spec = backend(
            self.delegation_spec.backend_id, self.compiler_specs_snapshot
        )
        manager = _manager(self.backend, self.compiler_specs_snapshot)
        if self._has_floats and not takes_floats(manager):
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
            _take_state(edge_program)
        return result

    def generate_partitions(self, edge_program: torch.export.ExportedProgram) -> list[Any]:
        """Finds partitions; without those that only compute constants, which QNN cannot compile."""
        constants = {
            *edge_program.graph_signature.inputs_to_parameters,
            *edge_program.graph_signature.inputs_to_buffers,
            *edge_program.graph_signature.inputs_to_lifted_tensor_constants,
        }
        return [
            partition
            for partition in super().generate_partitions(edge_program)
            if _has_inputs(partition, constants)
        ]

    def ops_to_not_decompose(self, ep: torch.export.ExportedProgram) -> Any:
        """Operators that QNN takes whole; see upstream's class.

        Upstream calls it once more with what was lowered, to look for such operators that are left.
        """
        operators, keeps = super().ops_to_not_decompose(ep)
        kept = set(operators)

        def checked(node: torch.fx.Node) -> bool:
            if isinstance(node.target, EdgeOpOverload) and node.target._op in kept:
                self._refuse(node)
            return keeps(node)

        return operators, checked

    def _refuse(self, node: torch.fx.Node) -> None:
        """Fails on an operator that nothing can run.

        Raises:
          BuildError: unless it is one of quantization, which upstream allows.
        """
        name = str(node.target._op)
        if "quantize" in name:
            return
        inputs = [_described(value) for value in node.all_input_nodes]
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        layer = _layer(stack[-1][0]) if stack else ""
        where = f' in the layer "{layer}"' if layer else ""
        raise BuildError(
            f"{self._label}: QNN on {self._chip} refuses the operator {name}({', '.join(inputs)})"
            f"{where}, and ExecuTorch keeps it whole for QNN, so its own kernels cannot run it.",
            "Change types or sizes to what QNN takes, write the layer with other operators, or use "
            "another recipe for it (overrides).",
        )


def install() -> None:
    """Replaces, for this process, where upstream takes QNN's backends from and makes payloads."""
    if qnn_partitioner.get_current_qnn_manager is _manager:
        return
    qnn_partitioner.get_current_qnn_manager = _manager
    qnn_preprocess.get_current_qnn_manager = _manager
    backend = qnn_preprocess.QnnBackend
    upstream = backend.preprocess_multimethod

    def preprocess_multimethod(
        edge_programs: Mapping[str, Sequence[Any]],
        compile_specs: Mapping[str, Sequence[Sequence[CompileSpec]]],
    ) -> dict[str, list[Any]]:
        made: dict[str, list[Any]] = {}
        for names in _contexts(edge_programs, compile_specs):
            made |= upstream(
                {name: edge_programs[name] for name in names},
                {name: compile_specs[name] for name in names},
            )
        results = [result for name in edge_programs for result in made[name]]
        payloads = qualcomm_reproducible.signed([r.processed_bytes for r in results])
        for result, payload in zip(results, payloads, strict=True):
            result.processed_bytes = payload
        return {name: made[name] for name in edge_programs}

    backend.preprocess_multimethod = staticmethod(preprocess_multimethod)


def takes_floats(manager: Any) -> bool:
    """Tells whether a chip's HTP takes 16-bit floats.

    Args:
      manager: upstream's QnnManager for the chip.
    """
    import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as adaptor
    import numpy as np

    def tensor(name: str, kind: Any) -> Any:
        return adaptor.TensorWrapper(
            name,
            kind,
            adaptor.Qnn_DataType_t.QNN_DATATYPE_FLOAT_32,
            adaptor.Qnn_QuantizationEncoding_t.QNN_QUANTIZATION_ENCODING_UNDEFINED,
            {},
            2,
            [1, 8],
            [],
            np.array([], dtype=np.float32),
            False,
        )

    kinds = adaptor.Qnn_TensorType_t
    relu = adaptor.PyQnnOpWrapper("probe", "qti.aisw", "Relu")
    relu.AddInputTensors([tensor("probe_in", kinds.QNN_TENSOR_TYPE_APP_WRITE)])
    relu.AddOutputTensors([tensor("probe_out", kinds.QNN_TENSOR_TYPE_APP_READ)])
    return manager.IsNodeSupportedByBackend([relu.GetOpWrapper()])


def _has_inputs(partition: Any, constants: Collection[str]) -> bool:
    nodes = set(partition.nodes)
    return any(
        given not in nodes and not (given.op == "placeholder" and given.name in constants)
        for node in nodes
        for given in node.all_input_nodes
    )


def _take_state(edge_program: torch.export.ExportedProgram) -> None:
    """Tags the buffers that one partition changes and that nothing else uses."""
    signature = edge_program.graph_signature
    nodes = {node.name: node for node in edge_program.graph.nodes}
    changed = {
        target: nodes[name] for name, target in signature.buffers_to_mutate.items() if name in nodes
    }
    for name, target in signature.inputs_to_buffers.items():
        if target not in changed or name not in nodes:
            continue
        users = [*nodes[name].users, *changed[target].users]
        around = {
            user.meta.get("delegation_tag")
            for user in (changed[target], *users)
            if user.op != "output"
        }
        if len(around) == 1 and None not in around:
            nodes[name].meta["delegation_tag"] = around.pop()


def _contexts(
    edge_programs: Mapping[str, Sequence[Any]],
    compile_specs: Mapping[str, Sequence[Sequence[CompileSpec]]],
) -> list[list[str]]:
    """Lists the methods that go into contexts together.

    With shared weights those whose n-th partitions are lowered with equal specs, for all n.
    """
    groups: dict[Any, list[str]] = {}
    for name, programs in edge_programs.items():
        specs = tuple(spec.value for of_part in compile_specs[name] for spec in of_part)
        key: Any = (len(programs), specs) if _shares(specs) else name
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def _shares(specs: Sequence[bytes]) -> bool:
    from executorch.backends.qualcomm.serialization.qc_schema_serialize import flatbuffer_to_option

    return bool(specs) and all(
        flatbuffer_to_option(spec).backend_options.htp_options.use_weight_sharing
        for spec in set(specs)
    )


def _manager(backend_type: Any, compile_specs: Sequence[CompileSpec]) -> Any:
    """QNN's backend for options, which is started once."""
    [option] = [spec.value for spec in compile_specs]
    if option not in _managers:
        _managers[option] = QnnManagerRegistry().get_or_create_qnn_manager(backend_type, option)
    return _managers[option]


def _described(node: torch.fx.Node) -> str:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"


def _layer(path: str) -> str:
    """A module's name in the model: "body.7" for "L['self'].body.7" and the like."""
    return path.removeprefix("L['self']").strip(".")
