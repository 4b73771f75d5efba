"""Weights that convolutions of several kinds read, or a layer and something else.

XNNPACK's lowering gives a weight one layout, that of the first convolution that reads it, and hands
it so to all others: a transposed convolution computes something else, and one over rows fails.

Its runtime (ExecuTorch 1.5.1) frees what a layer packs, a weight or a bias, once it is packed. What
else in the part reads it then reads freed memory: an app ends, unless it keeps the file in memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import torch
from etlower import operators
from executorch.backends.transforms.utils import create_constant_placeholder
from executorch.backends.xnnpack.utils.quant_utils import is_dequant
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec
from torch.fx import Graph, Node

_STORED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
# Dimensions of a weight over rows.
_ROWS = 3
_PICTURES = 4
# Operator to the places of what it packs.
_PACKED = {"addmm": (0, 2), "convolution": (1, 2), "linear": (1, 2), "mm": (1,)}
_TURNING = frozenset({"permute_copy", "t_copy", "transpose_copy"})
# The place of a convolution's groups.
_GROUPS = 6


def own_layouts(_method: str, program: ExportedProgram) -> ExportedProgram:
    """A pass for `ExportRecipe.aten_transform_passes`: a weight for each layout that is read.

    Args:
      _method: name of the method; unused.
      program: it is changed.

    Returns:
      The program.
    """
    written = set(program.graph_signature.buffers_to_mutate.values())
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    for node in list(program.graph.find_nodes(op="placeholder")):
        spec, value = specs[node.name], node.meta.get("val")
        is_weight = isinstance(value, torch.Tensor) and value.dim() in (_ROWS, _PICTURES)
        if is_weight and spec.kind in _STORED and spec.target not in written:
            _split(program, node, spec)
    program.graph_module.recompile()
    return program


def own_packed(program: ExportedProgram) -> None:
    """Gives layers of a part a copy of the constants that something else in it reads."""
    graph = program.graph
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    for node in list(graph.find_nodes(op="placeholder")):
        spec = specs[node.name]
        if spec.kind not in _STORED or {True, False} - {*map(_is_packed, *_uses(node))}:
            continue
        own = _copy(program, node, spec, f"{node.name}_packed")
        _hand(node, own, graph)
    program.graph_module.recompile()


def _hand(node: Node, own: Node, graph: Graph) -> None:
    """Hands layers that read a value another one, through what turns it for them."""
    for user in list(node.users):
        if not _passes(user):
            if _is_packed(node, user):
                user.replace_input_with(node, own)
            continue
        with graph.inserting_before(user):
            again = graph.node_copy(user, lambda each: own if each is node else each)
        _hand(user, again, graph)
        for unread in (again, user):
            if not unread.users:
                graph.erase_node(unread)


def _uses(node: Node) -> tuple[list[Node], list[Node]]:
    """Calls that read a value in the end: what each is given, and the calls."""
    given, calls = [], []
    for user in node.users:
        others = _uses(user) if _passes(user) else ([node], [user])
        given += others[0]
        calls += others[1]
    return given, calls


def _passes(node: Node) -> bool:
    """Tells whether a call hands a constant on to a layer, which packs it so."""
    return is_dequant(node) or operators.packet(node) in _TURNING


def _is_packed(given: Node, call: Node) -> bool:
    places = _PACKED.get(operators.packet(call), ())
    return any(call.args[place] is given for place in places if place < len(call.args))


def _split(program: ExportedProgram, node: Node, spec: InputSpec) -> None:
    """Gives those who read a weight in another layout than the first ones a copy."""
    readers: dict[Hashable, list[tuple[Node, Node]]] = {}
    for given, call in _reading(node):
        readers.setdefault(_layout(call, given), []).append((given, call))
    # What is no convolution reads the weight as it is.
    kept = next(iter(readers), None) if None not in readers else None
    others = [each for layout, each in readers.items() if layout != kept]
    for number, calls in enumerate(others, 1):
        own = _copy(program, node, spec, f"{node.name}_layout{number}")
        for given, call in calls:
            replacement = own
            if given is not node:
                with program.graph.inserting_before(call):
                    replacement = program.graph.node_copy(given)
                replacement.args = (own, *given.args[1:])
            call.update_arg(1, replacement)
            if given is not node and not given.users:
                program.graph.erase_node(given)


def _reading(node: Node) -> Iterator[tuple[Node, Node]]:
    """The calls that read a weight, each with what it is given: the weight, or its floats."""
    for user in node.users:
        if is_dequant(user):
            yield from ((user, call) for call in user.users)
        else:
            yield node, user


def _layout(call: Node, weight: Node) -> Hashable:
    """A key of the layout that a call reads; None: it is no weight of a convolution."""
    name = str(call.target)
    if not name.startswith("aten.conv") or call.args[1] is not weight:
        return None
    if weight.meta["val"].dim() == _ROWS:
        # The lowering makes a weight over pictures of it, for one of its calls.
        return call
    groups = call.args[_GROUPS] if len(call.args) > _GROUPS else 1
    return "transpose" in name, groups


def _copy(program: ExportedProgram, node: Node, spec: InputSpec, name: str) -> Node:
    stores = (program.state_dict, program.constants)
    data = next(store[spec.target] for store in stores if spec.target in store)
    with program.graph.inserting_before(node):
        return create_constant_placeholder(
            program, program.graph, name, spec.kind, data.detach().clone(), spec.persistent
        )
