"""A partitioner for OpenVINO that leaves out what it computes wrong, and fits what parts exchange.

OpenVINO computes whole numbers with 32 bits and doubles as floats, ignores what some operators mean
for whole numbers, and leaves an output alone that is a copy of an input. ExecuTorch's runtime of it
reads and writes rows only, and no tensors without dimensions: such values are copied, or get a
dimension, before a part and behind it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from etbuild.exact.nodes import argument_of
from etlower import exchanged, operators, own_elements, partition_tags
from etlower.refusals import Refusals
from etlower.replacing import replaced
from executorch.backends.openvino import partitioner as upstream
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import map_arg

_DTYPES = frozenset(
    {
        *(torch.float32, torch.float16, torch.int64, torch.int32, torch.int8, torch.uint8),
        torch.bool,
    }
)
# What goes beyond 8 bits begins anew in ExecuTorch only.
_BYTES = frozenset({torch.int8, torch.uint8})
_WRAPPING = frozenset({"add", "mul", "neg", "pow", "sub", "sum"})
# Of several bytes at once it gives other bits.
_BITWISE = frozenset({"bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor"})
# Right for floats only.
_OF_FLOATS = frozenset({"abs", "isinf", "isnan", "pow", "sign"})
# Whole numbers go through 32-bit floats there, which have 24 bits.
_ROUNDING = frozenset(
    {
        *("addmm", "amax", "amin", "bmm", "cumsum", "div", "floor_divide", "fmod", "masked_fill"),
        *("max", "mean", "min", "mm", "prod", "relu", "remainder", "sum", "where"),
    }
)
# OpenVINO computes 64-bit whole numbers in 32 bits, which hold places in a tensor.
_GIVING_PLACES = frozenset({"argmax", "argmin"})
_TAKING_PLACES = frozenset(
    {"embedding", "gather", "index", "index_put", "index_select", "scatter", "scatter_add"}
)

_PAIR = 2
# They copy, where a result has the shape and the type of what is given.
_MOVES = frozenset(
    {
        *("_clone_dim_order", "_to_copy", "_to_dim_order_copy", "alias_copy", "clone", "copy"),
        *("detach_copy", "expand_copy", "permute_copy", "repeat", "slice_copy", "view_copy"),
    }
)
_REDUCTIONS = frozenset(
    {
        *("amax", "amin", "linalg_vector_norm", "logsumexp", "max", "mean", "min", "norm", "prod"),
        *("std", "sum", "var", "var_mean"),
    }
)
_EXTREMES = frozenset({"amax", "amin", "max", "min"})
_VIEWS = frozenset({"alias_copy", "clone", "squeeze_copy", "unsqueeze_copy", "view_copy"})
# Of x86-64's largest.
_FLOATS_OF_REGISTER = 16
# At a value that follows from no input.
_STORED = "openvino_stored"
# At each call: those that are equal to it, and itself.
_TWINS = "openvino_twins"
# At a comparison of own elements, and what picks them.
_COMPARED = "openvino_compared"

# The last partitioner's.
refused = Refusals()


class Supported(upstream.OpenvinoOperatorsSupport):
    """Upstream's list of operators, without calls that would go wrong."""

    def is_node_supported(self, modules: Any, node: Node) -> bool:
        """As upstream's."""
        return self._takes(node) and not self._only_copies(node)

    def _takes(self, node: Node) -> bool:
        if node.op != "call_function" or refused.has(node) or is_wrong(node):
            return False
        return super().is_node_supported({}, node)

    def _only_copies(self, node: Node) -> bool:
        """Tells whether a part with an operator would copy one of its inputs to an output."""
        source = node
        while self._copies(source):
            source = source.all_input_nodes[0]
        if source is node or self._takes(source):
            return False
        readers = list(node.users)
        for reader in readers:
            if not self._takes(reader):
                return True
            readers += reader.users if self._copies(reader) else ()
        return False

    def _copies(self, node: Node) -> bool:
        return _is_copy(node, node.all_input_nodes) and self._takes(node)


def _is_copy(node: Node, sources: Sequence[Node]) -> bool:
    """Tells whether a result is what an operator is given: of the same type and the same shape."""
    tensors = [*operators.values(node), *(t for value in sources for t in operators.values(value))]
    kinds = {(tensor.dtype, tuple(tensor.shape)) for tensor in tensors}
    return (
        len(sources) == 1
        and len(tensors) == _PAIR
        and len(kinds) == 1
        and operators.packet(node) in _MOVES
    )


def is_wrong(node: Node) -> bool:
    """Tells whether OpenVINO gives something else for an operator of a graph than ExecuTorch."""
    # Of several results, later ones may be empty, as those of a normalization.
    results = operators.values(node)[:1]
    given = [value for value in node.all_input_nodes if value.op == "call_function"]
    tensors = [*results, *(tensor for value in given for tensor in operators.values(value)[:1])]
    if any(t.dtype not in _DTYPES for t in tensors):
        return True
    if any(t.numel() == 0 for t in (*results, *operators.inputs(node))):
        return True
    name = operators.packet(node)
    # It puts NaN anywhere, and medians of what a mask selects go by its place.
    if name in {"argsort", "sort", "topk"}:
        return True
    if name in _WRAPPING and any(t.dtype in _BYTES for t in results):
        return True
    # What follows from constants alone, as 4-bit weights, its compiler computes as they are.
    if not node.meta.get(_STORED) and _counts_otherwise(node, name):
        return True
    # It takes a correction that is left open for none.
    if name in {"std", "var", "var_mean"} and node.kwargs.get("correction", 1) is None:
        return True
    if name in _OF_FLOATS and not all(t.is_floating_point() for t in operators.inputs(node)):
        return True
    if name in {"all", "any"} and any(not t.dim() for t in operators.inputs(node)):
        return True
    if name in _MOVES and not all(t.is_contiguous() for t in results):
        return True
    # It rounds the quotient, which may be a whole number where eager's rest is not zero.
    if name == "fmod":
        return True
    if name in {"div", "floor_divide"} and _divides_reduced(node):
        return True
    if name == "view_copy" and _joins_reduced(node):
        return True
    if name in {"unsqueeze_copy", "view_copy"} and _adds_before_reduction(node):
        return True
    if name == "convolution" and _is_computed_of_bytes(node.args[1]):
        return True
    if name in _EXTREMES and _gets_scale(node):
        return True
    if node.meta.get(_COMPARED):
        return True
    if name == "select_copy" and _is_scaled_by_channel(node.args[0]):
        return True
    if name == "permute_copy" and _moves_what_is_joined(node):
        return True
    if name in {"embedding", "index", "index_select"} and _takes_few(node, name):
        return True
    if name == "pow" and _is_averaged_in_few(node):
        return True
    if name.startswith("avg_pool") and _ends_behind_padding(node):
        return True
    if name == "constant_pad_nd" and (_follows_reduction(node.args[0]) or _pads_steps(node)):
        return True
    return name == "index_put" and (node.args[3:4] == (True,) or node.kwargs.get("accumulate"))


def _ends_behind_padding(node: Node) -> bool:
    """Tells whether averages over windows that reach beyond the padding count the padding.

    OpenVINO (2025.4) counts what lies beyond it, too.
    """
    padding = argument_of(node, 3, "padding", 0)
    is_padded = any(padding) if isinstance(padding, list | tuple) else padding
    ends = argument_of(node, 4, "ceil_mode", False)
    return bool(is_padded and ends and argument_of(node, 5, "count_include_pad", True))


def _is_computed_of_bytes(weight: Node) -> bool:
    """Tells whether a weight is computed of quantized values: OpenVINO's compiler ends on it.

    A weight's own scale is none of these.
    """
    own = ("quantize", "dequantize")
    while operators.packet(weight).startswith(own):
        weight = weight.all_input_nodes[0]
    ancestors = [weight] if weight.op == "call_function" else []
    for each in ancestors:
        ancestors += [n for n in each.all_input_nodes if n not in ancestors]
    return any("quantize" in operators.packet(each) for each in ancestors)


def _gets_scale(node: Node) -> bool:
    """Tells whether a result is quantized, as it is or moved: OpenVINO counts zero in (2025.4)."""
    users = [*node.users]
    for user in users:
        name = operators.packet(user)
        if name.startswith("quantize"):
            return True
        if name in _MOVES or user.target is operator.getitem:
            users += user.users
    return False


def _is_scaled_by_channel(node: Node) -> bool:
    """Tells whether channels have scales of their own, for a depthwise convolution behind.

    OpenVINO (2025.4) fails in the first call where one of their rows is selected.
    """
    return operators.packet(node) == "dequantize_per_channel"


def _moves_what_is_joined(node: Node) -> bool:
    """Tells whether channels are moved to the front of a value that is concatenated, too.

    OpenVINO (2025.4) has such a value in the concatenation's memory and as rows of channels for a
    convolution, and takes one for the other.
    """
    last = len(node.args[1]) - 1
    if [dim % (last + 1) for dim in node.args[1]] != [0, last, *range(1, last)]:
        return False
    source = node.args[0]
    while _is_view(source):
        source = source.all_input_nodes[0]
    # Its compiler computes equal calls once.
    readers = [reader for twin in source.meta.get(_TWINS, [source]) for reader in twin.users]
    for reader in readers:
        if operators.packet(reader) == "cat" and _is_joined_in_place(reader):
            return True
        readers += reader.users if _is_view(reader) else ()
    return False


def _is_view(node: Node) -> bool:
    """Tells whether a value has what it is given where that is, quantized or not."""
    name = operators.packet(node)
    return name in _VIEWS or "quantize" in name


def _is_joined_in_place(node: Node) -> bool:
    """Tells whether what a concatenation is given may lie in its result as it is."""
    shape = node.meta["val"].shape
    dim = argument_of(node, 1, "dim", 0)
    return all(size == 1 for size in shape[: dim % len(shape)])


def _takes_few(node: Node, name: str) -> bool:
    """Tells whether rows of no more than a register's floats are taken of a stored table.

    Before layers that it computes in bfloat16, OpenVINO (2025.4) gives what its memory holds.
    """
    table, places = node.args[:2]
    if node.meta.get(_STORED) or not table.meta.get(_STORED):
        return False
    if name == "embedding":
        dim = 0
    elif name == "index":
        dim = max(n for n, place in enumerate(places) if place is not None)
    else:
        dim = places
    shape = table.meta["val"].shape
    return math.prod(shape[dim % len(shape) + 1 :]) <= _FLOATS_OF_REGISTER


def _is_averaged_in_few(node: Node) -> bool:
    """Tells whether a power is averaged over rows of less than a register's floats.

    Where a norm of rows follows that is multiplied by stored weights, the kernel that OpenVINO
    (2025.4) fuses them to ends the process.
    """
    shape = node.meta["val"].shape
    means = [reader for reader in node.users if operators.packet(reader) == "mean"]
    return bool(shape and means) and shape[-1] < _FLOATS_OF_REGISTER


def _follows_reduction(node: Node) -> bool:
    """Tells whether a value is a reduction's, maybe quantized or moved: OpenVINO pads it wrong."""
    while "quantize" in (name := operators.packet(node)) or name in _MOVES:
        node = node.all_input_nodes[0]
    return _reduction(node) in _REDUCTIONS


def _pads_steps(node: Node) -> bool:
    """Tells whether what has a scale is padded with another number than zero.

    Before a product of matrices, OpenVINO (2025.4) pads the steps with it.
    """
    source = node.args[0]
    while operators.packet(source) in _MOVES:
        source = source.all_input_nodes[0]
    return any(node.args[2:3]) and operators.packet(source).startswith("dequantize")


def _divides_reduced(node: Node) -> bool:
    """Tells whether a sum or another reduction is divided by a number of the model.

    OpenVINO (2025.4) fuses the two, and gives zeros from the second row on.
    """
    x, divisor = node.args[:2]
    if isinstance(divisor, Node) and not divisor.meta.get(_STORED):
        return False
    while isinstance(x, Node) and operators.packet(x) not in _REDUCTIONS:
        computed = [source for source in x.all_input_nodes if not source.meta.get(_STORED)]
        if x.op != "call_function" or len(computed) != 1:
            return False
        [x] = computed
    return isinstance(x, Node)


def _joins_reduced(node: Node) -> bool:
    """Tells whether a view of a reduction has other sizes: OpenVINO fails on some as it runs."""
    source = node.args[0]
    while operators.packet(source) in _VIEWS:
        source = source.args[0]
    shapes = [[size for size in each.meta["val"].shape if size != 1] for each in (source, node)]
    return _reduction(source) in _REDUCTIONS and shapes[0] != shapes[1]


def _reduction(node: Node) -> str:
    """Name of the operator that gives a value, which may be one of several results."""
    return operators.packet(node.args[0] if node.target is operator.getitem else node)


def _adds_before_reduction(node: Node) -> bool:
    """Tells whether a view adds a dimension to what a reduction then reads that keeps its own.

    OpenVINO (2025.4) reduces first, and fails in the first call.
    """
    added = node.meta["val"].dim()
    if node.args[0].meta["val"].dim() >= added:
        return False
    readers = [*node.users]
    for reader in readers:
        name = operators.packet(reader)
        if name in _REDUCTIONS and operators.values(reader)[0].dim() == added:
            return True
        readers += reader.users if "quantize" in name else ()
    return False


def _counts_otherwise(node: Node, name: str) -> bool:
    results = operators.values(node)[:1]
    if name in _ROUNDING and any(map(operators.is_whole, results)):
        return True
    if name in _BITWISE and any(t.dtype in _BYTES for t in results):
        return True
    if any(t.dtype == torch.int64 for t in results):
        return name not in _GIVING_PLACES
    takes_wide = any(t.dtype == torch.int64 for t in operators.inputs(node))
    # Those that quantize have zero points of 64 bits.
    return takes_wide and name not in _TAKING_PLACES and "quantize" not in name


class GuardedPartitioner(upstream.OpenvinoPartitioner):
    """Upstream's partitioner, which asks `Supported`.

    Args:
      specs: as upstream's.
    """

    def __init__(self, specs: list[CompileSpec]) -> None:
        super().__init__(specs)
        self._refused = Refusals()

    def partition(self, exported_program: ExportedProgram) -> Any:
        """As upstream's."""
        global refused
        refused = self._refused
        _mark_stored(exported_program)
        _mark_twins(exported_program)
        for node in own_elements.compared(exported_program.graph):
            node.meta[_COMPARED] = True
        with replaced((upstream, "OpenvinoOperatorsSupport", Supported)):
            result = super().partition(exported_program)
        _exchange_floats(exported_program)
        with exchanged.results_named(exported_program):
            _give_once(exported_program)
        exchanged.fit(exported_program, min_rank=1)
        return result


def _exchange_floats(program: ExportedProgram) -> None:
    """Has parts give floats: what reads bytes of another one fails in the first call."""
    for node in program.graph.nodes:
        given = node.args[0] if operators.packet(node).startswith("dequantize") else node
        if operators.packet(given).startswith("quantize") and partition_tags.TAG in given.meta:
            node.meta[partition_tags.TAG] = given.meta[partition_tags.TAG]


def _give_once(program: ExportedProgram) -> None:
    """Has a part give the floats of one quantized value once; its compiler fails on more."""
    given: dict[tuple[Any, ...], Node] = {}
    for node in list(program.graph.nodes):
        tag = partition_tags.of(node)
        if tag is None or not operators.packet(node).startswith("dequantize"):
            continue
        outside = partition_tags.readers_outside(node)
        first = given.setdefault((tag, node.target, *node.args), node) if outside else node
        if first is not node:
            for user in outside:
                user.replace_input_with(node, first)
            if not node.users:
                program.graph.erase_node(node)


def _mark_stored(program: ExportedProgram) -> None:
    signature = program.graph_signature
    written = {*signature.buffers_to_mutate.values()}
    state = {name for name, path in signature.inputs_to_buffers.items() if path in written}
    given = {*signature.user_inputs, *state}
    for node in program.graph.nodes:
        is_input = node.op == "placeholder" and node.name in given
        sources = node.all_input_nodes
        node.meta[_STORED] = not is_input and all(source.meta[_STORED] for source in sources)


def _mark_twins(program: ExportedProgram) -> None:
    """Has each call know those of the same operator on equal values."""
    known: dict[str, list[Node]] = {}
    for node in program.graph.nodes:
        given = map_arg((node.args, node.kwargs), lambda source: source.meta[_TWINS][0])
        key = f"{node.target} {given}" if node.op == "call_function" else node.name
        node.meta[_TWINS] = known.setdefault(key, [])
        node.meta[_TWINS].append(node)
