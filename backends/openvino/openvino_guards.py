"""A partitioner for OpenVINO that leaves out what it computes wrong, and fits what parts exchange.

OpenVINO computes whole numbers with 32 bits and doubles as floats, ignores what some operators mean
for whole numbers, and leaves an output alone that is a copy of an input. ExecuTorch's runtime of it
reads and writes rows only, and no tensors without dimensions: such values are copied, or get a
dimension, before a part and behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from etlower import operators
from etlower.replacing import replaced
from executorch.backends.openvino import partitioner as upstream
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.dialects._ops import ops
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.export import ExportedProgram
from torch.fx import Node

_TAG = "delegation_tag"
_DTYPES = frozenset(
    {
        *(torch.float32, torch.float16, torch.int64, torch.int32, torch.int8, torch.uint8),
        torch.bool,
    }
)
# What goes beyond 8 bits begins anew in ExecuTorch only.
_BYTES = frozenset({torch.int8, torch.uint8})
_WRAPPING = frozenset({"add", "mul", "neg", "pow", "sub", "sum"})
# Right for floats only.
_OF_FLOATS = frozenset({"abs", "isinf", "isnan", "pow", "sign"})
_RANGE = torch.iinfo(torch.int32)
_TO_ORDER = ops.edge.dim_order_ops._to_dim_order_copy.default
_VIEW = ops.edge.aten.view_copy.default

# Operators that the compiler failed on in former attempts, by `key_of`; the last partitioner's.
refused: set[tuple[str, str]] = set()


def key_of(node: Node) -> tuple[str, str]:
    """Returns the names that tell an operator from others in the next attempt."""
    return node.name, operators.name(node)


class Supported(upstream.OpenvinoOperatorsSupport):
    """Upstream's list of operators, without calls that would go wrong."""

    def is_node_supported(self, modules: Any, node: Node) -> bool:
        """As upstream's."""
        if node.op == "call_function" and (key_of(node) in refused or is_wrong(node)):
            return False
        return super().is_node_supported(modules, node) and not self._only_copies(node)

    def _only_copies(self, node: Node) -> bool:
        """Tells whether a part with an operator would copy one of its inputs to an output."""
        sources = node.all_input_nodes
        if not _is_copy(node, sources) or self._takes(sources[0]):
            return False
        return not all(map(self._takes, node.users))

    def _takes(self, node: Node) -> bool:
        return node.op == "call_function" and self.is_node_supported({}, node)


def _is_copy(node: Node, sources: Sequence[Node]) -> bool:
    """Tells whether a result is what an operator is given: of the same type and the same shape."""
    tensors = [*operators.values(node), *(t for value in sources for t in operators.values(value))]
    kinds = {(tensor.dtype, tuple(tensor.shape)) for tensor in tensors}
    return (
        len(sources) == 1 and len(tensors) == _PAIR and len(kinds) == 1 and _packet(node) in _MOVES
    )


def _packet(node: Node) -> str:
    """Name of an operator without its namespace and its overload."""
    return operators.name(node).partition(".")[2].partition(".")[0]


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
    name = _packet(node)
    if name in _WRAPPING and any(t.dtype in _BYTES for t in results):
        return True
    # It takes a correction that is left open for none.
    if name in {"std", "var", "var_mean"} and node.kwargs.get("correction", 1) is None:
        return True
    if name in _OF_FLOATS and not all(t.is_floating_point() for t in operators.inputs(node)):
        return True
    if name in _MOVES and not all(t.is_contiguous() for t in results):
        return True
    if name == "index_put" and (node.args[3:4] == (True,) or node.kwargs.get("accumulate")):
        return True
    return any(t.dtype == torch.int64 for t in results) and _has_large_number(node)


def _has_large_number(node: Node) -> bool:
    """Tells whether an operator reads a whole number of more than 32 bits."""
    return any(_are_large(value.meta.get(_ENDS, ())) for value in (node, *node.all_input_nodes))


def _are_large(numbers: Iterable[int]) -> bool:
    return any(not _RANGE.min <= number <= _RANGE.max for number in numbers)


_PAIR = 2
# They copy, where a result has the shape and the type of what is given.
_MOVES = frozenset(
    {
        *("_clone_dim_order", "_to_copy", "_to_dim_order_copy", "alias_copy", "clone", "copy"),
        *("detach_copy", "expand_copy", "permute_copy", "repeat", "slice_copy", "view_copy"),
    }
)
# At a constant of whole numbers: the least and the greatest.
_ENDS = "openvino_ends"


class GuardedPartitioner(upstream.OpenvinoPartitioner):
    """Upstream's partitioner, which asks `Supported`.

    Args:
      specs: as upstream's.
    """

    def __init__(self, specs: list[CompileSpec]) -> None:
        super().__init__(specs)
        self._refused: set[tuple[str, str]] = set()

    def partition(self, exported_program: ExportedProgram) -> Any:
        """As upstream's."""
        global refused
        refused = self._refused
        _mark_constants(exported_program)
        with replaced((upstream, "OpenvinoOperatorsSupport", Supported)):
            result = super().partition(exported_program)
        constants = {
            *exported_program.graph_signature.inputs_to_parameters,
            *exported_program.graph_signature.inputs_to_buffers,
            *exported_program.graph_signature.inputs_to_lifted_tensor_constants,
        }
        _fit(exported_program, constants)
        return result


def _mark_constants(program: ExportedProgram) -> None:
    signature = program.graph_signature
    stored = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    for node in program.graph.find_nodes(op="placeholder"):
        path = stored.get(node.name)
        value = program.constants.get(path, program.state_dict.get(path)) if path else None
        if isinstance(value, FakeTensor):
            value = value.constant
        if value is None or value.dtype != torch.int64:
            continue
        with unset_fake_temporarily():
            if value.numel():
                node.meta[_ENDS] = (int(value.min()), int(value.max()))
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        # What is made of constants alone reads all of their numbers, and large ones spread.
        sources = node.all_input_nodes
        ends = [end for source in sources for end in source.meta.get(_ENDS, ())]
        ends += [value for value in node.args if isinstance(value, int)]
        is_whole = any(t.dtype == torch.int64 for t in operators.values(node))
        if is_whole and (all(_ENDS in source.meta for source in sources) or _are_large(ends)):
            node.meta[_ENDS] = tuple(ends)


def _fit(program: ExportedProgram, constants: set[str]) -> None:
    """Hands parts rows with a dimension at least, and takes such from them."""
    [output] = program.graph.find_nodes(op="output")
    given = list(output.all_input_nodes)
    for node in list(program.graph.nodes):
        if node.name in constants or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        own = node.meta.get(_TAG)
        readers: dict[str | None, list[Node]] = {}
        for user in node.users:
            readers.setdefault(user.meta.get(_TAG), []).append(user)
        others = [tag for tag in readers if tag != own]
        if not any(tag is not None for tag in (own, *others)) or not others:
            continue
        value = node.meta["val"]
        if not value.is_contiguous():
            _fit_order(node, own, readers)
        elif value.dim() == 0:
            _fit_rank(node, own, readers)
    for before, after in zip(given, output.all_input_nodes, strict=True):
        if before is not after:
            program.graph_signature.replace_all_uses(before.name, after.name)
    program.graph_module.recompile()


def _fit_order(node: Node, own: str | None, readers: dict[str | None, list[Node]]) -> None:
    order = list(node.meta["val"].dim_order())
    rows = node.meta["val"].contiguous()
    source = node
    if own is not None:
        # The part gives rows.
        node.meta["val"] = rows
        source = _behind(node, None, _TO_ORDER, (node,), {"dim_order": order})
        _read(node, source, readers.get(None, []))
    else:
        rows_of = _behind(node, None, _TO_ORDER, (node,), {"dim_order": sorted(order)})
    for tag, users in readers.items():
        if tag is not None and tag != own:
            _read(node, node if own is not None else rows_of, users)


def _fit_rank(node: Node, own: str | None, readers: dict[str | None, list[Node]]) -> None:
    wide = _behind(node, own, _VIEW, (node, [1]))
    last = wide
    for tag, users in readers.items():
        if tag != own:
            last = _behind(last, tag, _VIEW, (wide, []))
            _read(node, last, users)


def _behind(node: Node, tag: str | None, target: Any, args: Any, kwargs: Any = None) -> Node:
    """A call behind a node, in the part of that tag."""
    with node.graph.inserting_after(node):
        made = node.graph.call_function(target, args, kwargs or {})
    values = [a.meta["val"] if isinstance(a, Node) else a for a in args]
    made.meta = {key: value for key, value in node.meta.items() if key not in (_TAG, _ENDS)}
    made.meta["val"] = target(*values, **(kwargs or {}))
    if tag is not None:
        made.meta[_TAG] = tag
    return made


def _read(node: Node, instead: Node, users: list[Node]) -> None:
    for user in users:
        user.replace_input_with(node, instead)
