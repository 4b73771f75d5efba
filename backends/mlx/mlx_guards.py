"""Keeps from MLX what upstream's lowering for it (ExecuTorch 1.5.1) computes wrong.

Its partitioner runs the handler of each operator, and what a handler raises is the reason for which
the operator is decomposed, or stays with ExecuTorch. `install` has handlers refuse more. Its pass
that joins casts leaves out those in between, also where they round; `passes` replaces it. Its
constants go by their names alone, so that 1 of a type would be 1 of another, and a weight of two
convolutions would have the layout of the first one.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import torch
from etlower import constant_results, exchanged, operators, partition_tags
from etlower.replacing import is_ours, mark, replace
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportPass, PassResult
from mlx_differences import CHECKS, GIVING_PLACES, has_other_type, is_computed_otherwise
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import _ShapeEnvGuardError

_aten = torch.ops.aten
_LEFT_OUT = (_aten._assert_scalar.default, _aten.scalar_tensor.default, _aten.sym_size.int)
_OF_ONE_SIZE = "MLX would compute it for the example's size only, and the size varies"
# How the tags of upstream's parts begin.
_TAGS = "mlx_"
_CAST = ops.edge.aten._to_copy.default


def install(registry: Any) -> None:
    """Has handlers of operators refuse what MLX computes otherwise; once.

    Args:
      registry: upstream's, of operators and their handlers.
    """
    nothing = registry.get_noop_handler()
    for target, inner in registry._handlers.items():
        if inner is not nothing and not is_ours(inner):
            registry._handlers[target] = _checked(inner, CHECKS.get(target, lambda _: True))


def tell_constants_apart(builder: Any) -> None:
    """Has constants of one name be one where they are equal: upstream takes the first one for all.

    A number's name has no type, and a weight's not the layout that a handler gave it.

    Args:
      builder: upstream's class, which makes a program.
    """

    def constant(inner: Any, self: Any, name: str, tensor: torch.Tensor) -> Any:
        names = itertools.chain([name], (f"{name}_{count}" for count in itertools.count(1)))
        known = self.extra_constants
        fitting = (n for n in names if n not in known or _is_same(known[n], tensor))
        return inner(self, next(fitting), tensor)

    replace(builder, "make_or_get_constant", constant)


def join_constants(backend_api: ModuleType) -> None:
    """Has a part read each of its constants by one name.

    ExecuTorch makes a copy for each reader of a constant that something outside reads, too. Of
    copies upstream stores one only, and torch finds one only of those that a model's code makes.

    Args:
      backend_api: ExecuTorch's module that cuts out parts.
    """

    def duplicate(inner: Any, program: ExportedProgram, tag: str) -> None:
        inner(program, tag)
        if tag.startswith(_TAGS):
            _join_copies(program, tag)

    replace(backend_api, "_maybe_duplicate_constant_nodes", duplicate)


def _join_copies(program: ExportedProgram, tag: str) -> None:
    signature = program.graph_signature
    placeholders = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    first: dict[str, Node] = {}
    for spec in list(signature.input_specs):
        node = placeholders[spec.arg.name]
        if spec.target is None or partition_tags.of(node) != tag:
            continue
        kept = first.setdefault(spec.target, node)
        if kept is not node:
            node.replace_all_uses_with(kept)
            program.graph.erase_node(node)
            signature.input_specs.remove(spec)
    program.graph_module.recompile()


def refuse_sizes(builder: Any) -> None:
    """Has handlers fail that write a size that varies: a payload would hold the example's.

    Args:
      builder: upstream's class, which makes a program.
    """

    def emit(inner: Any, self: Any, op: Any) -> None:
        fields = vars(op).values()
        each = [v for f in fields for v in (f if isinstance(f, list | tuple) else [f])]
        held = [*each, *(getattr(value, "literal", None) for value in each)]
        if any(isinstance(value, torch.SymInt) for value in held):
            raise NotImplementedError(_OF_ONE_SIZE)
        inner(self, op)

    replace(builder, "emit", emit)


def count_fractions(slots: Any) -> None:
    """Has upstream take note of fractions of sizes, on whose type it fails: no handler gets them.

    Args:
      slots: upstream's class, which counts what a program holds.
    """

    def kind(inner: Any, self: Any, value: Any) -> Any:
        from executorch.backends.mlx.builder.slot_manager import IdType

        return IdType.SymInt if isinstance(value, torch.SymFloat) else inner(self, value)

    replace(slots, "_val_to_idtype", kind)


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tells whether constants are of one type and shape, with the same bytes: also not a number."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if isinstance(one, FakeTensor) or isinstance(other, FakeTensor):
        return True
    a, b = (x.detach().contiguous().reshape(-1).view(torch.uint8) for x in (one, other))
    return torch.equal(a, b)


def repeat_joint_keys(attention: Any) -> None:
    """Leaves repetitions out of attention whose keys and values repeat one tensor.

    Upstream counts wrong how often the tensor is read, and fails, as it does on 64-bit floats.

    Args:
      attention: upstream's class, which finds the pattern.
    """

    def maybe_create(inner: Any, cls: Any, program: ExportedProgram, head: Node) -> Any:
        found = None if has_other_type(head) else inner(cls, program, head)
        if found is not None and found.body and found.k_node is found.v_node:
            return cls(head, [], found.q_node, *head.args[1:3])
        return found

    replace(attention, "maybe_create", maybe_create)


def _checked(inner: Callable[..., Any], check: Callable[[Node], bool]) -> Callable[..., Any]:
    def handler(builder: Any, node: Node) -> Any:
        if operators.is_empty(node) or is_computed_otherwise(node) or not check(node):
            raise NotImplementedError("MLX would compute something else for these arguments")
        with _choosing_nothing(node):
            given = inner(builder, node)
        if operators.packet(node) in GIVING_PLACES:
            _sign(builder, node, given)
        return given

    return mark(handler)


@contextlib.contextmanager
def _choosing_nothing(node: Node) -> Iterator[None]:
    """Has a handler fail where it takes the example's size for one that varies."""
    sizes = (size for tensor in operators.inputs(node) for size in tensor.shape)
    varying = next((size for size in sizes if isinstance(size, torch.SymInt)), None)
    if varying is None:
        yield
        return
    try:
        with varying.node.shape_env.error_on_new_guards():
            yield
    except _ShapeEnvGuardError as error:
        raise NotImplementedError(_OF_ONE_SIZE) from error


def _sign(builder: Any, node: Node, given: Any) -> None:
    """Gives places in a tensor torch's type: MLX's have no sign, nor what is computed with them."""
    from executorch.backends.mlx.builder.op_helpers import torch_dtype_to_scalar_type
    from executorch.backends.mlx.serialization.mlx_graph_schema import AsTypeNode

    slots = given if isinstance(given, tuple | list) else [given]
    read = {user.args[1] for user in node.users} if len(slots) > 1 else {0}
    for place, (slot, value) in enumerate(zip(slots, operators.values(node), strict=True)):
        if place in read and not value.is_floating_point():
            tensor = builder.slot_to_tid(slot)
            kind = torch_dtype_to_scalar_type(value.dtype)
            builder.emit(AsTypeNode(x=tensor, out=tensor, scalar_type=kind))


def partitioner(upstream: ModuleType) -> Any:
    """Upstream's partitioner, whose parts get and give rows: MLX's runtime reads no others.

    Args:
      upstream: its package.
    """

    class Partitioner(upstream.MLXPartitioner):  # type: ignore[name-defined, misc]
        def ops_to_not_decompose(self, program: ExportedProgram) -> Any:
            with _in_rows(program):
                kept, check = super().ops_to_not_decompose(program)
            # Parts without results stay out, as constants do, and nothing decomposes these.
            return [each for each in kept if each not in _LEFT_OUT], check

        def generate_partitions(self, edge_program: ExportedProgram) -> Any:
            parts = super().generate_partitions(edge_program)
            return [part for part in parts if partition_tags.is_read(part)]

        def partition(self, program: ExportedProgram) -> Any:
            with _in_rows(program):
                result = super().partition(program)
            exchanged.fit(program)
            return result

    made = Partitioner()
    constant_results.leave(made)
    _leave_writes(made)
    return made


def _leave_writes(made: Any) -> None:
    """Has a partitioner undo writes in place of what it leaves, in the end."""
    inner = made.partition

    @functools.wraps(inner)
    def partition(program: ExportedProgram) -> Any:
        result = inner(program)
        _write_nothing(program)
        return result

    made.partition = partition


def _write_nothing(program: ExportedProgram) -> None:
    """Undoes upstream's writes in place where MLX did not take them: ExecuTorch has no kernel."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable or partition_tags.TAG in node.meta:
            continue
        base = schema.name.partition("::")[2].removesuffix("_")
        overload = _of_same_arguments(getattr(_aten, base, None), schema)
        node.target = getattr(getattr(ops.edge.aten, base, None), overload, node.target)


def _of_same_arguments(packet: Any, schema: Any) -> str:
    """The overload of an operator that takes what one in place takes; it may have another name."""
    types = [argument.type for argument in schema.arguments]
    for name in packet.overloads() if packet else ():
        other = getattr(packet, name)._schema
        if not other.is_mutable and [argument.type for argument in other.arguments] == types:
            return str(name)
    return ""


@contextlib.contextmanager
def _in_rows(program: ExportedProgram) -> Iterator[None]:
    """Gives inputs rows for as long as upstream asks its handlers."""
    inputs = program.graph.find_nodes(op="placeholder")
    values = {n: n.meta["val"] for n in inputs if isinstance(n.meta.get("val"), torch.Tensor)}
    for node, value in values.items():
        node.meta["val"] = value.contiguous()
    try:
        yield
    finally:
        for node, value in values.items():
            node.meta["val"] = value


def passes(upstream: ModuleType) -> Sequence[ExportPass]:
    """Upstream's passes on a graph, with `_Casts` for its own.

    Args:
      upstream: its module of passes.
    """
    own = upstream.CollapseDtypeConversionPass
    return [_Casts() if isinstance(p, own) else _apart(p) for p in upstream.get_default_passes()]


def _apart(made: Any) -> Any:
    """Has upstream's pass that joins equal calls tell numbers of values from numbers as such.

    It took `x[2:3]` for `x[a:b]`, and `arange(10)` for `arange(n)`, where a value has that number.
    """
    number = getattr(made, "_new_vn", None)
    if number is not None:
        made._new_vn = lambda: ("value", number())
    return made


class _Casts(ExportPass):
    """Joins two casts where the first one loses nothing."""

    def call(self, graph_module: GraphModule) -> PassResult:
        modified = False
        for node in graph_module.graph.find_nodes(op="call_function", target=_CAST):
            while _is_cast(node) and _is_cast(node.args[0]) and _keeps_all(node.args[0]):
                node.args = (node.args[0].args[0],)
                modified = True
        if modified:
            graph_module.graph.eliminate_dead_code()
            graph_module.recompile()
        return PassResult(graph_module, modified)


def _is_cast(node: Any) -> bool:
    """Tells whether a node changes a type, and nothing else."""
    if not isinstance(node, Node) or node.target != _CAST:
        return False
    given = {name for name, value in node.kwargs.items() if value is not None}
    return given == {"dtype"}


def _keeps_all(cast: Node) -> bool:
    """Tells whether a cast's type holds all that its input's does."""
    narrow, wide = cast.args[0].meta["val"].dtype, cast.meta["val"].dtype
    if narrow == wide or narrow == torch.bool:
        return True
    if narrow.is_floating_point and wide.is_floating_point:
        a, b = torch.finfo(narrow), torch.finfo(wide)
        return bool(b.eps <= a.eps and b.tiny <= a.tiny and a.max <= b.max)
    if narrow.is_floating_point or wide.is_floating_point or wide == torch.bool:
        return False
    least, most = torch.iinfo(narrow), torch.iinfo(wide)
    return bool(most.min <= least.min and least.max <= most.max)
