"""Sorts a graph by moving its nodes, where upstream makes a new graph of copies.

Replaces `legalize_graph` as ExecuTorch's partitioning uses it, which sorts the whole graph once for
each partition. A copy of every node is made there, with its arguments mapped and its module's code
generated anew.

Why it is equivalent: the order is computed by the same algorithm from the same inputs (the order of
nodes and of their users), and all that a new graph would make different is made so here: users are
in the order of the sorted nodes, the name space knows the names in use and no others. What it can't
reproduce, names that a new graph would change, it leaves to upstream's function.
"""

from __future__ import annotations

import collections
import contextlib
import operator
from typing import Any

import torch
from etlower.replacing import replaced
from torch.fx import Graph, GraphModule, Node
from torch.fx import graph as fx_graph

from etfast.unit import Unit

# Upstream's list: assertions about sizes go before what depends on them.
_PRIORITIZED = frozenset(
    {
        operator.add,
        operator.mul,
        operator.sub,
        operator.floordiv,
        operator.truediv,
        operator.mod,
        operator.le,
        operator.lt,
        operator.ge,
        operator.gt,
        operator.eq,
        operator.ne,
        torch.ops.aten.sym_constrain_range.default,
        torch.ops.aten.sym_constrain_range_for_size.default,
        torch.ops.aten._assert_async.msg,
        torch.ops.aten.scalar_tensor.default,
        torch.ops.aten._assert_scalar.default,
    }
)


def sort_in_place(gm: GraphModule, upstream: Any) -> GraphModule:
    """Sorts the nodes of a module's graph as `legalize_graph` would.

    Args:
      gm: the module; its graph keeps its nodes.
      upstream: the function to call where names would change.

    Returns:
      The same module.

    Raises:
      RuntimeError: the graph has a cycle.
    """
    graph = gm.graph
    nodes = list(graph.nodes)
    space = _namespace(nodes)
    if space is None:
        return upstream(gm)
    order = _sorted(nodes)
    _relink(graph, order)
    _order_users(order)
    _fill(space, order)
    graph._graph_namespace = space
    table = fx_graph._FindNodesLookupTable()
    for node in order:
        table.insert(node)
    graph._find_nodes_lookup_table = table
    gm.graph = graph
    return gm


def _sorted(nodes: list[Node]) -> list[Node]:
    """Kahn's algorithm with upstream's queue: first in, first out, but for the prioritized."""
    waits = dict.fromkeys(nodes, 0)
    for node in nodes:
        for user in node.users:
            waits[user] += 1
    queue = collections.deque(node for node in nodes if not waits[node])
    order = []
    while queue:
        node = queue.popleft()
        order.append(node)
        for user in node.users:
            waits[user] -= 1
            if not waits[user]:
                if user.op == "call_function" and user.target in _PRIORITIZED:
                    queue.appendleft(user)
                else:
                    queue.append(user)
    if len(order) < len(nodes):
        left = [node for node in nodes if waits[node]]
        raise RuntimeError(f"Input graph has cycles, unable to add {left}")
    return order


def _relink(graph: Graph, order: list[Node]) -> None:
    previous = graph._root
    for number, node in enumerate(order):
        previous._next = node
        node._prev = previous
        node._sort_key = (number,)
        previous = node
    previous._next = graph._root
    graph._root._prev = previous


def _order_users(order: list[Node]) -> None:
    """Users in the order in which copies would have been added."""
    users: dict[Node, dict[Node, None]] = {node: {} for node in order}
    for node in order:
        for source in node._input_nodes:
            users[source][node] = None
    for node, ordered in users.items():
        node.users = ordered


_PARTS: dict[str, tuple[str, int | None]] = {}


def _parts(name: str) -> tuple[str, int | None] | None:
    """A name's stem and number, as the name space takes them; None: it would change the name."""
    parts = _PARTS.get(name)
    if parts is None:
        match = fx_graph._name_regex.match(name)
        if match is None or name in fx_graph._illegal_names:
            return None
        stem, number = match.group(1, 2)
        parts = _PARTS[name] = (stem, None if number is None else int(number))
    return parts


def _namespace(nodes: list[Node]) -> Any:
    """An empty name space, or None: a copy of the graph would have other names."""
    names = {node.name for node in nodes}
    if len(names) < len(nodes) or not all(map(_parts, names)):
        return None
    return fx_graph._Namespace()


def _fill(space: Any, order: list[Node]) -> None:
    """Does what `create_name` does for each name, none of which is taken."""
    counts = space._base_count
    for node in order:
        stem, number = _parts(node.name)
        counts[stem] = counts.get(stem, 0) if number is None else number
    space._used_names = {node.name for node in order}
    space._obj_to_name = {node: node.name for node in order}


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.exir import lowered_backend_module

    upstream = lowered_backend_module.legalize_graph

    def legalize_graph(gm: GraphModule) -> GraphModule:
        return sort_in_place(gm, upstream)

    return replaced((lowered_backend_module, "legalize_graph", legalize_graph))


UNIT = Unit(
    name="legalize_graph",
    relies_on={
        "torch.fx.passes.tools_common": {
            "legalize_graph": "6dc8094b32ebd463",
        },
        "torch.fx.graph": {
            "_Namespace": "108a72ef4809bfea",
            "_FindNodesLookupTable": "caf6efe1436ffce5",
            "Graph.create_node": "7e8353cfe5d2ae96",
            "Graph.node_copy": "1ea7e7358568c428",
        },
        "executorch.exir.lowered_backend_module": {
            "create_submodule_from_nodes": "3279f5ec23b0b723",
        },
    },
    install=_install,
)
