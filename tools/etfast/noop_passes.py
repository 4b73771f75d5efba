"""Keeps the graph of a pass that found nothing to change, where upstream makes it again.

Replaces `_ExportPassBase.call` of ExecuTorch, which passes that look for a pattern call in the end,
found or not: it traces all nodes anew. XNNPACK's pipeline has a dozen of those, for each partition.

Why it is equivalent: tracing is skipped where the graph is what such a tracing made, node for node,
with the same arguments, names and metadata, and the pass has none of the functions that see nodes
while they are traced. It would make the same nodes with the same names again. Graphs that refer to
modules or attributes, which may have changed by themselves, are traced.
"""

from __future__ import annotations

import contextlib
from typing import Any

from etlower.replacing import replaced
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.pass_base import PassResult

from etfast.fake_tensors import learned
from etfast.unit import Unit

# Name of the attribute of a graph that says what tracing made.
_TRACED = "_etfast_traced"
# Functions of a pass that don't see nodes while they are traced.
_BLIND = frozenset({"__call__", "__init__", "call", "ensures", "requires"})
_BY_VALUE = (bool, float, int, str, type(None))


def fingerprint(graph: Graph) -> list[Any] | None:
    """All that tells a graph from a changed one; None: it refers to what isn't in it.

    Graphs with control flow refer to their branches, so upstream's function traces them.
    """
    parts: list[Any] = []
    for node in graph.nodes:
        if node.op in ("get_attr", "call_module"):
            return None
        parts.append(node)
        parts.append(node.op)
        parts.append(node.name)
        parts.append(node.target)
        _add(parts, node.args)
        _add(parts, node.kwargs)
        for name, value in node.meta.items():
            parts.append(name)
            parts.append(id(value))
        parts.append(learned(node.meta.get("val")))
    return parts


def _add(parts: list[Any], value: Any) -> None:
    if isinstance(value, Node):
        parts.append(value)
    elif type(value) in _BY_VALUE:
        # Texts, as numbers of two types may be equal, and one is not equal to itself.
        parts.append(repr(value))
    elif isinstance(value, list | tuple):
        parts.append(len(value))
        for item in value:
            _add(parts, item)
    elif isinstance(value, dict):
        for name, item in value.items():
            parts.append(name)
            _add(parts, item)
    else:
        parts.append(id(value))


_PLAIN: dict[type, bool] = {}


def _is_plain(given: Any, base: type) -> bool:
    """Tells whether a pass sees no node while it is traced."""
    kind = type(given)
    known = _PLAIN.get(kind)
    if known is None:
        names = {name for cls in base.__mro__[:-1] for name in vars(cls)} - _BLIND
        known = _PLAIN[kind] = isinstance(given, base) and all(
            getattr(kind, name, None) is getattr(base, name)
            for name in names
            if not name.startswith("__") and name != "_abc_impl"
        )
    return known


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.exir import pass_base

    upstream = pass_base._ExportPassBase.call
    base = pass_base.ExportPass

    def call(self: Any, graph_module: GraphModule) -> PassResult:
        if not _is_plain(self, base):
            return upstream(self, graph_module)
        traced = graph_module.graph.__dict__.get(_TRACED)
        if traced is not None and traced == fingerprint(graph_module.graph):
            return PassResult(graph_module, True)
        result = upstream(self, graph_module)
        graph = result.graph_module.graph
        graph.__dict__[_TRACED] = fingerprint(graph)
        return result

    return replaced((pass_base._ExportPassBase, "call", call))


UNIT = Unit(
    name="noop_passes",
    relies_on={
        "executorch.exir.pass_base": {
            "_ExportPassBase.call": "689e39bb23b9834c",
            "_ExportPassBase.call_submodule": "d0245b732570ca52",
            "ExportPass": "e5dbf59cc1c2ba4f",
        },
    },
    install=_install,
)
