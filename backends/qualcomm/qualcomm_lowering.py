"""Lowering for QNN: one backend of QNN, contexts by sharing, refusals that say why.

Upstream's partitioner and `preprocess` do the work. What is added here:

- QNN's backend, which takes 20 ms to start, lives as long as the process. Upstream's
  own entry point keeps one (QnnManagerContext); through `ExportSession`, which recipes use, each
  partitioner and each partition would start another.
- Methods go into one context where they share weights, and into contexts of their own otherwise.
  Upstream puts all methods into one, and fails where they have different numbers of partitions.
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
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import qualcomm_reproducible
import qualcomm_scales
import torch
from etbuild import BuildError, LowerAgain
from etlower import operators
from etlower.refusals import Snapshot
from executorch.backends.qualcomm import qnn_preprocess
from executorch.backends.qualcomm.partition import qnn_partitioner
from executorch.backends.qualcomm.utils.constants import (
    QCOM_BYPASS_NODE,
    QCOM_QUANT_ATTRS,
    QCOM_QUANT_MAX,
)
from executorch.backends.qualcomm.utils.qnn_manager_lifecycle import QnnManagerRegistry
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from qualcomm_differences import becomes_whole, is_computed_otherwise, is_other_order
from qualcomm_passes import leave_out_passes

# QNN's own backends, by the options that they were started with.
_managers: dict[bytes, Any] = {}

# What upstream's code raises on operators and types that it does not know.
_FAILURES = (
    *(AssertionError, AttributeError, IndexError, KeyError),
    *(NotImplementedError, RuntimeError, TypeError, ValueError),
)

# Operators of a model that its compiler refuses, one after the other, until the build fails.
_MOST_REFUSED = 24


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
        # Learned in former attempts: calls to decompose, and nodes with which nothing compiles.
        self._decomposed: set[_Call] = set()
        self._refused: set[tuple[str, str]] = set()
        self._constants: set[torch.fx.Node] = set()

    def partition(self, edge_program: torch.export.ExportedProgram) -> Any:
        """Partitions a method; see upstream's class."""
        global _partitioner
        _partitioner = self
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

    def tag_nodes(self, partitions: list[Any], edge_program: torch.export.ExportedProgram) -> None:
        """As upstream's, which fails without partitions."""
        if partitions:
            super().tag_nodes(partitions, edge_program)

    def generate_partitions(self, edge_program: torch.export.ExportedProgram) -> list[Any]:
        """Finds partitions; without what only computes constants, which QNN cannot hand out."""
        signature = edge_program.graph_signature
        constants = {
            *signature.inputs_to_parameters,
            *signature.inputs_to_buffers,
            *signature.inputs_to_lifted_tensor_constants,
        } - set(signature.buffers_to_mutate.values())
        self._constants = qualcomm_scales.following(edge_program.graph.nodes, constants)
        with _refusing(self._stays):
            partitions = super().generate_partitions(edge_program)
        for partition in partitions:
            _leave_constants(partition, constants)
        for partition in partitions:
            self._constants |= _own_weights(partition)
        return [partition for partition in partitions if _has_inputs(partition, constants)]

    def _stays(self, node: torch.fx.Node) -> bool:
        """Tells of a node that QNN would take whether ExecuTorch computes it."""
        if (node.name, _name(node)) in self._refused:
            return True
        if is_other_order(node, _name(node)) or is_computed_otherwise(node, _name(node)):
            return True
        if _scales_rows(node):
            return True
        if _name(node) in _CASTS:
            given = node.all_input_nodes[0].meta["val"].dtype
            # QNN takes whole numbers for those that stand for fractions.
            becomes_quantized = QCOM_QUANT_ATTRS in node.meta and not given.is_floating_point
            return becomes_quantized or becomes_whole(node)
        if QCOM_QUANT_ATTRS in node.meta and _is_computed_wrong(node):
            return True
        if qualcomm_scales.are_mixed(node, self._constants):
            return True
        # QNN counts with 32 bits, and the runtime would read 64 of them.
        results = node.meta["val"] if _has_several(node) else ()
        return any(
            isinstance(result, torch.Tensor) and result.dtype == torch.int64 and _is_used(node, n)
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
        keys = {(reader.name, _name(reader)) for reader in _readers(node)}
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
        if "quantize" in _name(node):
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


def _scales_rows(node: torch.fx.Node) -> bool:
    """Tells whether rows are multiplied by a number that were picked by a part's 32-bit input.

    Of several rows of places, QNN picks those of the first one only, and zeros.
    """
    if operators.packet(node) != "mul":
        return False
    rows, number = node.args[:2]
    for picked, factor in ((rows, number), (number, rows)):
        place = _PLACES.get(operators.packet(picked)) if isinstance(picked, torch.fx.Node) else None
        if place is None or any(value.numel() > 1 for value in operators.values(factor)):
            continue
        places = picked.args[place]
        for each in places if isinstance(places, list | tuple) else (places,):
            # What is cast for this call alone is cast in its part.
            is_own = each is not None and _name(each) in _CASTS and len(each.users) == 1
            if each is not None and not is_own and each.meta["val"].dim() > 1:
                return True
    return False


# Operator to the argument that has its places.
_PLACES = {"embedding": 1, "index": 1}

# The one that partitioned last: the compiler below works for it.
_partitioner: Partitioner | None = None

_CASTS = frozenset(
    ("aten._to_copy.default", "dim_order_ops._to_dim_order_copy.default", "aten.to.dtype")
)
_FILLED_LIKE = frozenset(f"aten.{name}_like.default" for name in ("empty", "full", "ones", "zeros"))
_BYTE = 255


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
        shapes = [_described(value) for value in node.all_input_nodes]
        return _Call(_name(node), _layer_of(node), str(shapes).replace("int64", "int32"))


@contextlib.contextmanager
def _refusing(stays: Callable[[torch.fx.Node], bool]) -> Iterator[None]:
    """Makes upstream's check of operators refuse more: `stays`, and what it fails on itself."""
    checker = qnn_partitioner.QnnOperatorSupport
    supported = checker.is_node_supported

    def is_node_supported(self: Any, modules: Any, node: torch.fx.Node) -> bool:
        try:
            taken = bool(supported(self, modules, node))
        except _FAILURES:
            return False
        return taken and not (node.op == "call_function" and stays(node))

    checker.is_node_supported = is_node_supported
    try:
        yield
    finally:
        checker.is_node_supported = supported


def install() -> None:
    """Replaces, for this process, where upstream takes QNN's backends from and makes payloads."""
    if qnn_partitioner.get_current_qnn_manager is _manager:
        return
    qnn_partitioner.get_current_qnn_manager = _manager
    qnn_preprocess.get_current_qnn_manager = _manager
    leave_out_passes()
    backend = qnn_preprocess.QnnBackend
    upstream = backend.preprocess_multimethod

    def preprocess_multimethod(
        edge_programs: Mapping[str, Sequence[Any]],
        compile_specs: Mapping[str, Sequence[Sequence[CompileSpec]]],
    ) -> dict[str, list[Any]]:
        made: dict[str, list[Any]] = {}
        for names in _contexts(edge_programs, compile_specs):
            made |= _compiled(
                upstream,
                {name: edge_programs[name] for name in names},
                {name: compile_specs[name] for name in names},
            )
        results = [result for name in edge_programs for result in made[name]]
        payloads = qualcomm_reproducible.signed([r.processed_bytes for r in results])
        for result, payload in zip(results, payloads, strict=True):
            result.processed_bytes = payload
        return {name: made[name] for name in edge_programs}

    backend.preprocess_multimethod = staticmethod(preprocess_multimethod)


_AVERAGE = "aten.avg_pool2d.default"
_BATCH_NORM = "aten._native_batch_norm_legit_no_training.default"
_PICTURE = 4


def _compiled(
    compiler: Callable[..., dict[str, list[Any]]],
    programs: Mapping[str, Sequence[Any]],
    specs: Mapping[str, Sequence[Sequence[CompileSpec]]],
) -> dict[str, list[Any]]:
    """Compiles the methods of a context.

    Raises:
      LowerAgain, BuildError: QNN refuses an operator.
    """
    before = {name: [Snapshot.of(part) for part in parts] for name, parts in programs.items()}
    try:
        return compiler(programs, specs)
    except _FAILURES as error:
        said = str(error).partition("\n")[0].removesuffix(".")
        manager = _manager(_backend_of(specs), next(iter(specs.values()))[0])

        def compiles(name: str, program: Any, of_part: Sequence[CompileSpec]) -> bool:
            try:
                compiler({name: [program]}, {name: [of_part]})
            except _FAILURES:
                # Upstream leaves it as it is.
                manager.DestroyContext()
                return False
            return True

        manager.DestroyContext()
        for name, parts in before.items():
            for part, of_part in zip(parts, specs[name], strict=True):
                node = part.first_refused(lambda p, n=name, s=of_part: compiles(n, p, s))
                if node is not None and _partitioner is not None:
                    _partitioner.leave_out(node, said)
        raise


def _backend_of(specs: Mapping[str, Sequence[Sequence[CompileSpec]]]) -> Any:
    from executorch.backends.qualcomm.serialization.qc_schema_serialize import flatbuffer_to_option

    [spec] = next(iter(specs.values()))[0]
    return flatbuffer_to_option(spec.value).backend_options.backend_type


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


def _makes_weight(node: torch.fx.Node) -> bool:
    """Tells of what makes a weight of stored integers and their scales; QNN knows it by these."""
    return bool(node.meta.get(QCOM_BYPASS_NODE, False))


def _readers(node: torch.fx.Node) -> set[torch.fx.Node]:
    """The operators that read a weight, or the node itself if it makes none."""
    if not _makes_weight(node):
        return {node}
    return {reader for user in node.users for reader in _readers(user)}


def _own_weights(partition: Any) -> set[torch.fx.Node]:
    """Gives a partition copies of what makes its weights and is elsewhere.

    Handed in from outside, a weight is an activation for QNN, and has the wrong scale.

    Returns:
      The copies.
    """
    copies: set[torch.fx.Node] = set()
    left = sorted(partition.nodes, reverse=True)
    while left:
        reader = left.pop()
        for given in reader.all_input_nodes:
            if not _makes_weight(given) or given in partition.nodes:
                continue
            with given.graph.inserting_before(reader):
                copy = given.graph.node_copy(given)
            reader.replace_input_with(given, copy)
            partition.add_node(copy)
            copies.add(copy)
            left.append(copy)
    return copies


def _leave_constants(partition: Any, constants: Collection[str]) -> None:
    """Leaves to ExecuTorch what follows from constants alone and is read elsewhere, too.

    QNN has no outputs that depend on no input: the runtime would miss them. Of what a tensor is
    filled like, the size is all that counts. If the partition gives that tensor, what reads it
    cannot lie between two parts of the partition: those outside read a copy.
    """
    known: set[torch.fx.Node] = set()
    behind: set[torch.fx.Node] = set()
    for node in sorted(partition.nodes):
        is_filled = _name(node) in _FILLED_LIKE
        given = [] if is_filled else node.all_input_nodes
        if all(n in known or (n.op == "placeholder" and n.name in constants) for n in given):
            known.add(node)
            like = node.all_input_nodes if is_filled else []
            if any(n in partition.nodes for n in like) or not behind.isdisjoint(given):
                behind.add(node)
    while left := [node for node in known if any(u not in partition.nodes for u in node.users)]:
        for node in left:
            if node in behind:
                with node.graph.inserting_after(node):
                    copy = node.graph.node_copy(node)
                for user in [u for u in node.users if u not in partition.nodes]:
                    user.replace_input_with(node, copy)
                continue
            known.discard(node)
            partition.remove_node(node)


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


def _is_computed_wrong(node: torch.fx.Node) -> bool:
    """Tells of an operator of integers whether QNN's compiler makes something else of it."""
    if _name(node) == _AVERAGE:
        # Windows that are cut off have divisors of their own.
        return len(node.args) > 4 and bool(node.args[4])
    if _name(node) == "aten.constant_pad_nd.default":
        amounts = node.args[1]
        is_even = amounts[::2] == amounts[1::2]
        return not is_even or any(_name(user) == _AVERAGE for user in node.users)
    if _name(node) == "aten.cumsum.default":
        return True
    if _name(node) == "aten.linear.default":
        # The compiler never ends on a single number.
        return bool(node.args[0].meta["val"].numel() == 1)
    if _name(node) == "aten.mul.Tensor" and node.meta[QCOM_QUANT_ATTRS][QCOM_QUANT_MAX] > _BYTE:
        return any(_name(given) == "aten.tanh.default" for given in node.all_input_nodes)
    if _name(node) == _BATCH_NORM:
        # Of rows it takes the features for channels.
        return node.args[0].meta["val"].dim() != _PICTURE
    return False


def _has_several(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), tuple | list)


def _is_used(node: torch.fx.Node, number: int) -> bool:
    """Tells whether anything reads one of a node's results."""
    return any(
        user.target is operator.getitem and user.args[1] == number and user.users
        for user in node.users
    )


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


def _name(node: torch.fx.Node) -> str:
    """An operator's name, of ATen's or of the edge dialect's: "aten.add.Tensor"."""
    return str(node.target._op if isinstance(node.target, EdgeOpOverload) else node.target)


def _call_in_words(node: torch.fx.Node) -> str:
    inputs = [_described(value) for value in node.all_input_nodes]
    layer = _layer_of(node)
    where = f' in the layer "{layer}"' if layer else ""
    call = f"{_name(node)}({', '.join(inputs)})"
    return f"the operator {call}{where}{operators.at_line(node)}"


def _layer_of(node: torch.fx.Node) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return _layer(stack[-1][0]) if stack else ""


def _described(node: torch.fx.Node) -> str:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"


def _layer(path: str) -> str:
    """A module's name in the model: "body.7" for "L['self'].body.7" and the like."""
    return path.removeprefix("L['self']").strip(".")
