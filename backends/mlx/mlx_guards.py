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
import re
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import torch
from etlower import constant_results, exchanged, operators, partition_tags
from etlower.replacing import is_ours, mark, replace
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportPass, PassResult
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import _ShapeEnvGuardError

_aten = torch.ops.aten
_LEFT_OUT = (_aten._assert_scalar.default, _aten.scalar_tensor.default, _aten.sym_size.int)
_OF_ONE_SIZE = "MLX would compute it for the example's size only, and the size varies"
_WINDOW = re.compile(r"(?:conv|conv_transpose|avg_pool|max_pool)(\d)d")
_CAST = ops.edge.aten._to_copy.default


def install(registry: Any) -> None:
    """Has handlers of operators refuse what MLX computes otherwise; once.

    Args:
      registry: upstream's, of operators and their handlers.
    """
    nothing = registry.get_noop_handler()
    for target, inner in registry._handlers.items():
        if inner is not nothing and not is_ours(inner):
            registry._handlers[target] = _checked(inner, _CHECKS.get(target, lambda _: True))


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


def join_constants(backend: Any) -> None:
    """Has a part read each of its constants by one name: upstream stores one of several only.

    ExecuTorch makes a copy for each reader of a constant that something outside reads, too.

    Args:
      backend: upstream's class.
    """

    def preprocess(inner: Any, program: ExportedProgram, specs: Any) -> Any:
        signature = program.graph_signature
        placeholders = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
        first: dict[str, Node] = {}
        for spec in list(signature.input_specs):
            if spec.target is None:
                continue
            node = placeholders[spec.arg.name]
            kept = first.setdefault(spec.target, node)
            if kept is not node:
                node.replace_all_uses_with(kept)
                program.graph.erase_node(node)
                signature.input_specs.remove(spec)
        program.graph_module.recompile()
        return inner(program, specs)

    replace(backend, "preprocess", preprocess)


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


def _has_fraction(node: Node) -> bool:
    """Tells whether a call gets or gives a fraction that sizes give: payloads have none."""
    given = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    return any(isinstance(value, torch.SymFloat) for value in given)


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
        found = None if _has_other_type(head) else inner(cls, program, head)
        if found is not None and found.body and found.k_node is found.v_node:
            return cls(head, [], found.q_node, *head.args[1:3])
        return found

    replace(attention, "maybe_create", maybe_create)


def _checked(inner: Callable[..., Any], check: Callable[[Node], bool]) -> Callable[..., Any]:
    def handler(builder: Any, node: Node) -> Any:
        wrong = (
            *(_is_along_nothing, _is_of_integers, _fills_beyond, _has_other_type),
            *(_lacks_batches, _has_fraction),
        )
        if operators.is_empty(node) or any(tell(node) for tell in wrong) or not check(node):
            raise NotImplementedError("MLX would compute something else for these arguments")
        with _choosing_nothing(node):
            given = inner(builder, node)
        if operators.packet(node) in _GIVING_PLACES:
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
            return [part for part in super().generate_partitions(edge_program) if _gives(part)]

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


def _gives(part: Any) -> bool:
    """Tells whether something reads what a part computes: checks of sizes alone give nothing."""
    return any(user not in part.nodes for node in part.nodes for user in node.users)


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


def _is_along_nothing(node: Node) -> bool:
    """Tells whether a number is reduced along a dimension, or all dimensions are kept as one."""
    if operators.packet(node) not in _ALONG:
        return False
    return operators.inputs(node)[0].dim() == 0 or node.args[1:3] == (None, True)


def _is_of_integers(node: Node) -> bool:
    """Tells whether integers or booleans are given to what MLX computes of floats only.

    What counts booleans stays boolean there.
    """
    name, given = operators.packet(node), operators.inputs(node)
    if name in _OF_FLOATS:
        return not all(tensor.is_floating_point() for tensor in given)
    counts = any(map(operators.is_whole, operators.values(node)))
    return name in _COUNTING and counts and all(t.dtype == torch.bool for t in given)


def _fills_beyond(node: Node) -> bool:
    """Tells whether a whole number is beyond those that a payload holds."""
    numbers = [value for value in node.args if isinstance(value, int)]
    return operators.packet(node) in _FILLING and any(abs(n) > _EXACT for n in numbers)


def _has_other_type(node: Node) -> bool:
    """Tells whether a tensor has a type that MLX lacks: upstream looks at none of a list."""
    tensors = [*operators.inputs(node), *operators.values(node)]
    return any(tensor.dtype in _LACKED for tensor in tensors)


def _lacks_batches(node: Node) -> bool:
    """Tells whether a window moves over a tensor that has no dimension for the batch: MLX fails."""
    window = _WINDOW.match(operators.packet(node))
    return window is not None and operators.inputs(node)[0].dim() != int(window[1]) + 2


def _sorts_up(node: Node) -> bool:
    return not (node.args[2:3] == (True,) or node.kwargs.get("descending"))


def _finds_largest(node: Node) -> bool:
    return node.args[3:4] != (False,) and bool(node.kwargs.get("largest", True))


def _removes_ones(node: Node) -> bool:
    """MLX fails on other sizes than 1, which torch leaves alone, and takes no dimension for all."""
    shape, dims = node.args[0].meta["val"].shape, node.args[1]
    dims = [dims] if isinstance(dims, int) else dims
    return bool(dims) and all(shape[dim] == 1 for dim in dims)


def _has_dimensions(node: Node) -> bool:
    """MLX picks from no single number."""
    return bool(node.args[0].meta["val"].dim())


def _picks_first_axes(node: Node) -> bool:
    """MLX takes whole numbers; what several of them pick comes first, wherever they are.

    Upstream takes one that has as many dimensions as the tensor for places along its axis.
    """
    places = [place for place, index in enumerate(node.args[1]) if index is not None]
    dtypes = {node.args[1][place].meta["val"].dtype for place in places}
    ranks = [each.meta["val"].dim() for each in (node.args[0], node.args[1][places[0]])]
    if len(places) == 1 and ranks[0] == ranks[1] > 1:
        return False
    is_first = len(places) == 1 or places == list(range(len(places)))
    return is_first and dtypes <= {torch.int32, torch.int64}


def _has_epsilon(node: Node) -> bool:
    """MLX's default is 1e-5, and torch's depends on the type."""
    return bool(node.args[3:4]) and node.args[3] is not None


def _gives_values_only(node: Node) -> bool:
    """MLX has no places of maxima, and upstream hands out memory that nothing was written to."""
    return all(user.args[1] == 0 for user in node.users)


def _corrects_by_whole_number(node: Node) -> bool:
    """MLX cuts off fractions, and keeps no dimensions where all are reduced."""
    correction = node.kwargs.get("correction", 1)
    keeps = node.kwargs.get("keepdim") and not (node.args[1:2] and node.args[1])
    return correction is not None and correction == int(correction) and not keeps


def _rounds_no_quotient_down(node: Node) -> bool:
    """MLX rounds the quotient, eager looks at the rest; of whole numbers they are the same."""
    return not (operators.rounds_down(node) and node.meta["val"].is_floating_point())


def _copies_alike(node: Node) -> bool:
    """MLX neither repeats nor casts what is copied into a tensor."""
    target, source = operators.values(list(node.args[:2]))
    return target.shape == source.shape and target.dtype == source.dtype


def _repeats_along(node: Node) -> bool:
    """MLX takes the first dimension where none is named, and a number has none."""
    dim = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim")
    rank = node.args[0].meta["val"].dim()
    return rank == 1 or (rank > 1 and dim is not None)


def _cuts_off_if_transposed(node: Node) -> bool:
    """MLX fails on a padding that is wider than what the kernel adds to the result."""
    _, weight, _, _, padding, dilation, transposed, *_ = node.args
    return not transposed or _fits(padding, dilation, weight)


def _cuts_off(node: Node) -> bool:
    # padding, output_padding, groups, dilation
    given = node.args[4:]
    padding, _, _, dilation = [*given, *(0, 0, 1, 1)[len(given) :]]
    return _fits(padding, dilation, node.args[1])


def _keeps_type(node: Node) -> bool:
    """MLX adds up in the type that it is given, where torch takes 64 bits for bytes."""
    return bool(node.args[0].meta["val"].dtype == node.meta["val"].dtype)


def _is_added_up_in_its_type(node: Node) -> bool:
    """MLX adds whole numbers up in 32 bits, where torch takes 64."""
    return bool(node.args[0].meta["val"].dtype != torch.int32) or _keeps_type(node)


def _is_multiplied_in_its_type(node: Node) -> bool:
    """MLX multiplies whole numbers in 32 bits, where torch takes 64."""
    return bool(node.args[0].meta["val"].dtype == torch.bool) or _keeps_type(node)


def _fits(padding: Any, dilation: Any, weight: Node) -> bool:
    sizes = weight.meta["val"].shape[2:]
    wide = [padding] * len(sizes) if isinstance(padding, int) else padding
    apart = [dilation] * len(sizes) if isinstance(dilation, int) else dilation
    several = [each * len(sizes) if len(each) == 1 else each for each in (wide, apart)]
    return all(p <= d * (k - 1) for p, d, k in zip(*several, sizes, strict=True))


_OF_FLOATS = frozenset(
    {
        *("_log_softmax", "_softmax", "addmm", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
        *("baddbmm", "bmm", "conv1d", "conv2d", "conv3d"),
        *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"),
        *("linalg_vector_norm", "linear", "logsumexp", "matmul", "mean", "mm", "std", "var"),
    }
)
_COUNTING = frozenset({"add", "cumsum", "mul", "pow", "square", "sub"})
_GIVING_PLACES = frozenset({"argmax", "argmin", "argsort", "sort", "topk"})
_LACKED = frozenset((torch.float64, torch.int16, torch.uint16, torch.uint64))
_ALONG = frozenset(
    {
        *("_log_softmax", "_softmax", "all", "amax", "amin", "any", "argmax", "argmin", "argsort"),
        *("cumsum", "flip", "logsumexp", "max", "mean", "min", "prod", "roll", "sort", "std"),
        *("sum", "topk", "var"),
    }
)
# The payload has their number as a double.
_FILLING = frozenset({"full", "full_like", "scalar_tensor"})
_EXACT = 2**53
# Operator to what tells that MLX computes a call of it as torch does.
_CHECKS: dict[Any, Callable[[Node], bool]] = {
    _aten.argsort.default: _sorts_up,
    _aten.conv_transpose1d.default: _cuts_off,
    _aten.conv_transpose2d.input: _cuts_off,
    _aten.conv_transpose3d.input: _cuts_off,
    _aten.convolution.default: _cuts_off_if_transposed,
    _aten.copy.default: _copies_alike,
    _aten.cumsum.default: _keeps_type,
    _aten.div.Scalar_mode: _rounds_no_quotient_down,
    _aten.div.Tensor_mode: _rounds_no_quotient_down,
    _aten.floor_divide.default: _rounds_no_quotient_down,
    _aten.index.Tensor: _picks_first_axes,
    _aten.index_select.default: _has_dimensions,
    _aten.max_pool1d_with_indices.default: _gives_values_only,
    _aten.max_pool2d_with_indices.default: _gives_values_only,
    _aten.max_pool3d_with_indices.default: _gives_values_only,
    _aten.prod.default: _is_multiplied_in_its_type,
    _aten.prod.dim_int: _is_multiplied_in_its_type,
    _aten.repeat_interleave.self_int: _repeats_along,
    _aten.rms_norm.default: _has_epsilon,
    _aten.sort.default: _sorts_up,
    _aten.squeeze.dims: _removes_ones,
    _aten.squeeze_copy.dims: _removes_ones,
    _aten.std.correction: _corrects_by_whole_number,
    _aten.sum.default: _is_added_up_in_its_type,
    _aten.sum.dim_IntList: _is_added_up_in_its_type,
    _aten.topk.default: _finds_largest,
    _aten.var.correction: _corrects_by_whole_number,
}
