"""Results of a part for VGF that are equal in value to what it is given, or to one another.

VGF's converter drops operators that leave all numbers as they are (windows of one number, powers of
1, scales that are the same), whatever they are called. The graph then lacks a result, or has one
that nothing writes. Which they are is seen by computing the part of random numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from etlower import operators, partition_tags
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.fx.node import map_arg

_QUANTIZE = "quantize_per_tensor"


def compute_outside(program: ExportedProgram) -> None:
    """Has ExecuTorch compute such results.

    Args:
      program: whose nodes have the tags of their partitions; is changed.
    """
    while nodes := _equal(program.graph):
        for node in nodes:
            copy = _copied(node, {})
            for user in partition_tags.readers_outside(node):
                user.replace_input_with(node, copy)
            program.graph_signature.replace_all_uses(node.name, copy.name)
        program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _equal(graph: Graph) -> list[Node]:
    """Results whose values a part has already, of the first part that has some."""
    parts: dict[str, list[Node]] = {}
    for node in graph.nodes:
        tag = partition_tags.of(node)
        if tag is not None and node.op == "call_function":
            parts.setdefault(tag, []).append(node)
    for part in parts.values():
        own = set(part)
        given = dict.fromkeys(n for node in part for n in node.all_input_nodes if n not in own)
        results = [node for node in part if _is_result(node)]
        forms = [_form(node) for node in [*(n for n in given if _is_input(n)), *results]]
        if not any(forms.count(_form(node)) > 1 for node in results):
            continue
        values = _computed(part, given)
        found, seen = [], [values[n] for n in given if _is_input(n) and n in values]
        for node in results:
            if node in values and any(_same(values[node], other) for other in seen):
                found.append(node)
            seen += [values[node]] if node in values else []
        if found:
            return found
    return []


def _is_result(node: Node) -> bool:
    is_tensor = isinstance(node.meta.get("val"), torch.Tensor)
    return is_tensor and bool(partition_tags.readers_outside(node))


def _is_input(node: Node) -> bool:
    return partition_tags.of(node) is None


def _form(node: Node) -> tuple[Any, ...]:
    value = node.meta["val"]
    return (value.dtype, *value.shape) if isinstance(value, torch.Tensor) else ()


def _same(value: torch.Tensor, other: torch.Tensor) -> bool:
    return value.dtype == other.dtype and torch.equal(value, other)


def _computed(part: Iterable[Node], given: Iterable[Node]) -> dict[Node, Any]:
    """Values of a part's nodes, as far as they can be computed, of random numbers."""
    with unset_fake_temporarily(), torch.no_grad():
        chance = torch.Generator().manual_seed(0)
        values = {node: _random(node, chance) for node in given}
        for node in part:
            if any(n not in values for n in node.all_input_nodes):
                continue
            args, kwargs = map_arg((node.args, dict(node.kwargs)), values.__getitem__)
            target = node.target._op if isinstance(node.target, EdgeOpOverload) else node.target
            try:
                values[node] = target(*args, **kwargs)  # type: ignore[operator]
            except Exception:  # Of places in a tensor, for example, that random numbers are not.
                continue
    return values


def _random(node: Node, chance: torch.Generator) -> Any:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype.is_floating_point:
        return torch.randn(value.shape, generator=chance).to(value.dtype)
    low, high = (-9, 9) if value.dtype in (torch.int8, torch.int16) else (0, 2)
    return torch.randint(low, high, value.shape, generator=chance).to(value.dtype)


def _copied(node: Node, copies: dict[Node, Node]) -> Node:
    """Copies a call out of its part, with what it reads up to what a part can have as results."""
    if node in copies:
        return copies[node]
    tag = partition_tags.of(node)

    def source(given: Node) -> Node:
        is_own = given.op == "call_function" and partition_tags.of(given) == tag
        return _copied(given, copies) if is_own and not _can_be_result(given) else given

    args, kwargs = map_arg((node.args, dict(node.kwargs)), source)
    with node.graph.inserting_after(node):
        copies[node] = node.graph.call_function(node.target, args, kwargs)  # type: ignore[arg-type]
    copies[node].meta = partition_tags.without(node)
    return copies[node]


def _can_be_result(node: Node) -> bool:
    """Tells of a call whether it gives one tensor, and not the fractions that steps stand for."""
    if not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    part = [n for n in node.graph.nodes if partition_tags.of(n) == partition_tags.of(node)]
    called = {operators.packet(n) for n in part}
    return operators.packet(node) == _QUANTIZE or f"de{_QUANTIZE}" not in called
