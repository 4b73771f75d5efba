"""Results of a part for VGF that are equal in value to what it is given, or to one another.

VGF's converter drops operators that leave all numbers as they are (windows of one number, powers of
1, scales that are the same), whatever they are called, and those whose numbers it knows (products
with zero). The graph then lacks a result, or has one that nothing writes. Which they are is seen by
computing the part of random numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from etlower import operators, partition_tags
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.fx.node import map_arg

_QUANTIZE = "quantize_per_tensor"


def compute_outside(program: ExportedProgram) -> None:
    """Has ExecuTorch compute such results.

    Args:
      program: whose nodes have the tags of their partitions; is changed.
    """
    graph = program.graph
    known = _known(program)
    for tag in sorted({partition_tags.of(node) or "" for node in graph.nodes} - {""}):
        while nodes := _equal(part := _part(graph, tag), known):
            is_scaled = any(operators.packet(node) == f"de{_QUANTIZE}" for node in part)
            for node in nodes:
                copy = _copied(node, is_scaled, {})
                for user in partition_tags.readers_outside(node):
                    user.replace_input_with(node, copy)
                program.graph_signature.replace_all_uses(node.name, copy.name)
            graph.eliminate_dead_code()
    program.graph_module.recompile()


def _part(graph: Graph, tag: str) -> list[Node]:
    calls = (node for node in graph.nodes if node.op == "call_function")
    return [node for node in calls if partition_tags.of(node) == tag]


def _equal(part: Sequence[Node], known: Mapping[str, torch.Tensor]) -> list[Node]:
    """Results whose values a part has already, or that do not follow from what it is given."""
    own = set(part)
    given = dict.fromkeys(n for node in part for n in node.all_input_nodes if n not in own)
    inputs, results = [*filter(_is_input, given)], [*filter(_is_result, part)]
    tried = [_computed(part, given, width, known) for width in _WIDTHS]
    found, seen = [], inputs
    for node in results:
        is_constant = all(_equals(tried[0].get(node), values.get(node)) for values in tried)
        if is_constant or any(all(_same(node, other, v) for v in tried) for other in seen):
            found.append(node)
        seen = [*seen, node]
    return found


# Bounds leave some numbers as they are, of small ones all; a negative width turns their signs.
_WIDTHS = (0.3, -2.0, 20.0, -500.0)


def _is_result(node: Node) -> bool:
    is_tensor = isinstance(node.meta.get("val"), torch.Tensor)
    return is_tensor and bool(partition_tags.readers_outside(node))


def _is_input(node: Node) -> bool:
    return partition_tags.of(node) is None


def _form(node: Node) -> tuple[Any, ...]:
    """A tensor's type and shape; that of a single number is [1] in a graph for VGF."""
    value = node.meta["val"]
    return (value.dtype, *(value.shape or (1,))) if isinstance(value, torch.Tensor) else ()


def _same(node: Node, other: Node, values: Mapping[Node, Any]) -> bool:
    return _form(node) == _form(other) and _equals(values.get(node), values.get(other))


def _equals(one: torch.Tensor | None, two: torch.Tensor | None) -> bool:
    if one is None or two is None:
        return False
    return torch.equal(one.flatten(), two.flatten())


def _known(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """Values that a program stores, as far as they are known, by the names of their nodes."""
    tensors = {**program.constants, **program.state_dict}
    # Upstream partitions with tensors that have no bytes; those of numbers keep them beside.
    values = {n: t.constant if isinstance(t, FakeTensor) else t for n, t in tensors.items()}
    named = {name: values.get(target) for name, target in operators.stored(program).items()}
    return {name: value for name, value in named.items() if isinstance(value, torch.Tensor)}


def _computed(
    part: Iterable[Node], given: Collection[Node], width: float, known: Mapping[str, torch.Tensor]
) -> dict[Node, Any]:
    """Values of what a part is given and of its results, as far as random numbers give them."""
    with unset_fake_temporarily(), torch.no_grad():
        chance = torch.Generator().manual_seed(0)
        values = {node: _random(node, chance, width) for node in given}
        values |= {node: known[node.name] for node in given if node.name in known}
        for node in part:
            if any(n not in values for n in node.all_input_nodes):
                continue
            args, kwargs = map_arg((node.args, dict(node.kwargs)), values.__getitem__)
            target = node.target._op if isinstance(node.target, EdgeOpOverload) else node.target
            try:
                values[node] = target(*args, **kwargs)  # type: ignore[operator]
            except Exception:  # Of places in a tensor, for example, that random numbers are not.
                continue
    return {n: value for n, value in values.items() if n in given or _is_result(n)}


def _random(node: Node, chance: torch.Generator, width: float) -> Any:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return value
    numbers = torch.randn(value.shape, generator=chance) * width
    if value.dtype.is_floating_point:
        return numbers.to(value.dtype)
    if value.dtype in _STEPS:
        ends = torch.iinfo(value.dtype)
        return numbers.round().clamp(ends.min, ends.max).to(value.dtype)
    return torch.randint(0, 2, value.shape, generator=chance).to(value.dtype)


_STEPS = (torch.int8, torch.int16)


def _copied(node: Node, is_scaled: bool, copies: dict[Node, Node]) -> Node:
    """Copies a call out of its part, with what it reads up to what a part can have as results.

    Args:
      node: the call.
      is_scaled: whether the part's results are steps of a scale, not the fractions they stand for.
      copies: those that were made.
    """
    if node in copies:
        return copies[node]
    tag = partition_tags.of(node)

    def source(given: Node) -> Node:
        is_own = given.op == "call_function" and partition_tags.of(given) == tag
        is_whole = isinstance(given.meta.get("val"), torch.Tensor)
        can_be_result = is_whole and (operators.packet(given) == _QUANTIZE or not is_scaled)
        return _copied(given, is_scaled, copies) if is_own and not can_be_result else given

    args, kwargs = map_arg((node.args, dict(node.kwargs)), source)
    with node.graph.inserting_after(node):
        copies[node] = node.graph.call_function(node.target, args, kwargs)  # type: ignore[arg-type]
    copies[node].meta = partition_tags.without(node)
    return copies[node]
