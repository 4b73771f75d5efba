"""Weights that convolutions of several kinds read, or a convolution and something else.

XNNPACK's lowering gives a weight one layout, that of the first convolution that reads it, and hands
it so to all others: a transposed convolution computes something else, and one over rows fails.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import torch
from executorch.backends.transforms.utils import create_constant_placeholder
from executorch.backends.xnnpack.utils.quant_utils import is_dequant
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec
from torch.fx import Node

_STORED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
# Dimensions of a weight over rows.
_ROWS = 3
_PICTURES = 4
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
