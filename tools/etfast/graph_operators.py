"""Operators of a graph, by which a pattern that cannot match is told before it is looked for."""

from __future__ import annotations

from torch.fx import GraphModule


def has_any(graph_module: GraphModule, operators: frozenset[str]) -> bool:
    """Tells whether a graph calls one of these operators, such as "aten.cat.default"."""
    return not operators.isdisjoint(_called(graph_module))


def has_all(graph_module: GraphModule, operators: frozenset[str]) -> bool:
    """Tells whether a graph calls each of these operators."""
    return operators.issubset(_called(graph_module))


def _called(graph_module: GraphModule) -> set[str]:
    nodes = graph_module.graph.nodes
    return {getattr(node.target, "__name__", "") for node in nodes if node.op == "call_function"}
