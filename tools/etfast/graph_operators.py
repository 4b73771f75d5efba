"""Operators of a graph, by which a pattern that cannot match is told before it is looked for."""

from __future__ import annotations

from torch.fx import GraphModule


def has_any(graph_module: GraphModule, operators: frozenset[str]) -> bool:
    """Tells whether a graph calls one of these operators, such as "aten.cat.default"."""
    return any(
        node.op == "call_function" and getattr(node.target, "__name__", "") in operators
        for node in graph_module.graph.nodes
    )
