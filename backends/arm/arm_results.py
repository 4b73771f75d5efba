"""Results that Arm's converter would leave out: of two equal ones one, and what a part is given.

Its passes join what is equal and drop what moves nothing. VGF's graph then has a result less, or
one that nothing writes.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from etlower import operators, partition_tags
from etlower.names import digest
from executorch.exir.dialects._ops import ops
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import map_aggregate

_CLONE = ops.edge.dim_order_ops._clone_dim_order.default
# They keep the order of elements, where they keep all of these and the type.
_KEEPING = frozenset(
    {
        *("_clone_dim_order", "_to_copy", "_to_dim_order_copy", "alias_copy", "amax", "amin"),
        *("clone", "detach_copy", "expand_copy", "mean", "prod", "repeat", "slice_copy"),
        *("squeeze_copy", "sum", "unsqueeze_copy", "view_copy"),
    }
)
_PERMUTING = frozenset({"permute_copy", "transpose_copy"})
_PADDING = frozenset({"constant_pad_nd", "pad"})
_SPLITTING = frozenset({"split_copy", "split_with_sizes_copy"})
_QUANTIZE = "quantize_per_tensor"


def give_once(program: ExportedProgram) -> None:
    """Has ExecuTorch copy what a part would give twice, or as it was given.

    Args:
      program: whose nodes have the tags of their partitions; is changed.
    """
    graph, signature = program.graph, program.graph_signature
    stored = _stored(program)
    parts: dict[str, _Values] = {}
    for node in list(graph.nodes):
        tag = partition_tags.of(node)
        if tag is None or node.op != "call_function":
            continue
        values = parts.setdefault(tag, _Values(stored))
        values.note(node)
        others = partition_tags.readers_outside(node)
        if not others or not isinstance(node.meta["val"], torch.Tensor):
            continue
        source = values.first(node)
        if source is node:
            continue
        with graph.inserting_after(node):
            order = [*node.meta["val"].dim_order()]
            copy = graph.call_function(_CLONE, (source,), {"dim_order": order})
        copy.meta = partition_tags.without(node)
        for user in others:
            user.replace_input_with(node, copy)
        signature.replace_all_uses(node.name, copy.name)
        _erase(node)
    program.graph_module.recompile()


def _erase(node: Node) -> None:
    """Removes a call that nothing reads, and what only it read."""
    if node.users or node.op != "call_function":
        return
    sources = node.all_input_nodes
    node.graph.erase_node(node)
    for source in sources:
        _erase(source)


class _Values:
    """Numbers for the values of a part: equal ones have one, whatever their shapes are.

    Args:
      stored: constants' digests by the names of their nodes.
    """

    def __init__(self, stored: Mapping[str, str]) -> None:
        self._stored = stored
        self._numbers: dict[Any, int] = {}
        self._calls: list[Any] = []
        self._of: dict[Node, int] = {}
        self._results: dict[tuple[int, str], Node] = {}

    def note(self, node: Node) -> None:
        """Gives a call's value a number."""
        source = _source(node)
        if source is not None:
            self._of[node] = self._number(source)
            return
        packet = operators.packet(node)
        if packet == _QUANTIZE:
            call = self._calls[self._number(node.args[0])]
            if call[:1] == (f"de{_QUANTIZE}",) and call[2] == str(node.args[1:]):
                self._of[node] = call[1]
                return
        if packet == f"de{_QUANTIZE}":
            self._of[node] = self._new((packet, self._number(node.args[0]), str(node.args[1:])))
            return

        def key(given: Any) -> Any:
            is_node = isinstance(given, Node)
            return (self._number(given), _form(given)) if is_node else str(given)

        given = map_aggregate((node.args, node.kwargs), key)
        self._of[node] = self._new(("call", str(node.target), str(given)))

    def first(self, node: Node) -> Node:
        """The value that the part was given or has as a result before and that a node's equals."""
        number = self._of[node]
        call = self._calls[number]
        if call[0] == "given" and _form(call[1]) == _form(node):
            return call[1]  # type: ignore[no-any-return]
        return self._results.setdefault((number, _form(node)), node)

    def _number(self, node: Node) -> int:
        if node not in self._of:
            bits = self._stored.get(node.name)
            known = ("given", node) if bits is None else ("stored", bits, _form(node))
            self._of[node] = self._new(known)
        return self._of[node]

    def _new(self, call: Any) -> int:
        if call not in self._numbers:
            self._numbers[call] = len(self._calls)
            self._calls.append(call)
        return self._numbers[call]


def _stored(program: ExportedProgram) -> dict[str, str]:
    """Digests of the numbers that a program stores by the names of their nodes."""
    tensors = {**program.constants, **program.state_dict}
    kept = {n: t for n, t in operators.stored(program).items() if t in tensors}
    # Upstream partitions with tensors that have no bytes; those of numbers keep them beside.
    found = {name: getattr(tensors[target], "constant", None) for name, target in kept.items()}
    with unset_fake_temporarily():
        digests = {name: digest(value) for name, value in found.items() if value is not None}
    return {name: bits for name, bits in digests.items() if bits}


def _form(node: Node) -> str:
    """Type and shape of a value."""
    value = node.meta.get("val")
    is_tensor = isinstance(value, torch.Tensor)
    return f"{value.dtype} {[*value.shape]}" if is_tensor else str(value)


def _source(node: Node) -> Node | None:
    """The value whose elements a call gives in their order; None: it does something else."""
    if node.target is operator.getitem:
        [whole, _] = node.args
        is_all = operators.packet(whole) in _SPLITTING and len(whole.meta["val"]) == 1
        return whole.args[0] if is_all else None
    packet = operators.packet(node)
    if packet == "cat" and len(node.args[0]) == 1:
        return node.args[0][0]  # type: ignore[no-any-return]
    if not node.args or not isinstance(node.args[0], Node):
        return None
    source: Node = node.args[0]
    value, given = node.meta["val"], source.meta.get("val")
    if not isinstance(value, torch.Tensor) or not isinstance(given, torch.Tensor):
        return None
    if value.dtype != given.dtype or value.numel() != given.numel():
        return None
    if packet in _PERMUTING:
        dims = [*range(given.dim())]
        if packet == "transpose_copy":
            a, b = node.args[1:3]
            dims[a], dims[b] = dims[b], dims[a]
        else:
            dims = [dim % given.dim() for dim in node.args[1]]
        moved = [dim for dim in dims if given.shape[dim] != 1]
        return source if moved == sorted(moved) else None
    if packet in _PADDING:
        return source if not any(node.args[1]) else None
    return source if packet in _KEEPING else None
