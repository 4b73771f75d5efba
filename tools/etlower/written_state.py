"""Writes in place in a form that survives quantization.

PT2E puts conversions to 8 bits and back around operators. An operator that changes a buffer in
place (`self.total.add_(x)`) would change what the conversion gave instead, and torchao takes a
buffer that only such operators write to for a constant. So each becomes a new value and a copy of
it into the buffer, which both leave alone. Where a view is written to (`self.past[:, -1] = x`,
`y[:, 0] = 2`), or a view is read after what it shows was (`first = y[0]; y.add_(1)`), a conversion
may come between the two: torch makes the whole method functional first.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from operator import attrgetter

import torch
from torch.fx import GraphModule, Node

from etlower import operators

# Those that torchao knows for writes of a buffer, and that no quantizer puts conversions around.
_COPIES = ("copy_", "put_")
# How a graph reads a constant of the code; the second one where it is functional.
_CONSTANTS = ("lift_fresh_copy", "clone")
# It changes nothing but what gradients know.
_DETACH = "detach_"
# What gives a tensor another type.
_CASTS = ("_to_copy", "_to_dim_order_copy", "to")


def write_by_copies(graph: GraphModule) -> GraphModule:
    """Replaces operators that change buffers in place by their values and copies of those.

    Args:
      graph: of ATen operators, before it is quantized; it is changed.
    """
    # A result in place to the tensor that it is.
    written: dict[Node, Node] = {}
    for node in list(graph.graph.nodes):
        op = _functional(node)
        if op is None or _root(node.args[0], written) is None:
            continue
        destination = written.get(node.args[0], node.args[0])
        with graph.graph.inserting_before(node):
            value = graph.graph.call_function(op, node.args, node.kwargs)
            value.meta.update(node.meta)
            copy = torch.ops.aten.copy_.default
            graph.graph.call_function(copy, (destination, value)).meta.update(node.meta)
        node.replace_all_uses_with(value)
        graph.graph.erase_node(node)
        written[value] = destination
    graph.recompile()
    return graph


def take_constants(graph: GraphModule, names: Collection[str]) -> None:
    """Has constants of a model's code read as they are, not as copies, where nothing changes those.

    Quantizers know a stored weight or bias; some of them fail on a copy of one.

    Args:
      graph: of ATen operators, before it is quantized; it is changed.
      names: of constants that `torch.export` found in code, as `torch.tensor([1, 2, 1])`.
    """
    for constant in graph.graph.find_nodes(op="get_attr"):
        copies = [user for user in constant.users if operators.packet(user) in _CONSTANTS]
        for copy in copies if constant.target in names else ():
            if copy.kwargs or _is_changed_or_returned(copy):
                continue
            detached = [user for user in copy.users if operators.packet(user) == _DETACH]
            for node in (*detached, copy):
                node.replace_all_uses_with(constant)
                graph.graph.erase_node(node)
    graph.recompile()


def _is_changed_or_returned(copy: Node) -> bool:
    values = [copy]
    for value in values:
        for user in value.users:
            is_write = _writes(user) or _writes_elsewhere(user)
            if user.op == "output" or is_write and operators.packet(user) != _DETACH:
                return True
            values += [user] if _shares(user, value) else ()
    return False


def needs_functional(graph: GraphModule) -> bool:
    """Tells whether a graph writes to a view of a buffer, or to what it reads as another value.

    Args:
      graph: of ATen operators.
    """
    places = {node: place for place, node in enumerate(graph.graph.nodes)}
    return any(
        _writes_elsewhere(node)
        or _writes(node)
        and (
            (node.args[0].op != "get_attr" and _root(node.args[0]) is not None)
            or any(places[reader] > places[node] for reader in _readers_beside(node))
        )
        for node in graph.graph.nodes
    )


def _readers_beside(write: Node) -> list[Node]:
    """Finds what reads the memory that an operator changes, but not by its result."""
    memory = write.args[0]
    while _is_same_memory(memory):
        memory = memory.args[0]
    values = [memory]
    for value in values:
        values += [user for user in value.users if user is not write and _shares(user, value)]
    return [reader for value in values for reader in value.users]


def _shares(node: Node, given: Node) -> bool:
    """Tells whether a result lies in the memory of a value."""
    return _is_same_memory(node) and node.args[0] is given


def _is_same_memory(node: Node) -> bool:
    """Tells whether a result lies in the memory of the first argument, which may be several."""
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    return _writes(node) or _is_view(node)


def buffers(graph: GraphModule) -> dict[int, str]:
    """Finds the buffers that a graph writes to: the identity of each tensor to its name."""
    found = {}
    for node in graph.graph.nodes:
        root = _root(node.args[0]) if _writes(node) else None
        if root is not None:
            found[id(attrgetter(str(root.target))(graph))] = str(root.target)
    return found


def join(graph: GraphModule, names: Mapping[int, str]) -> None:
    """Reads and writes each buffer by one node, under its name, and in its own type.

    Args:
      graph: it is changed.
      names: as `buffers` gave them for the graph before other passes.
    """
    nodes: dict[str, Node] = {}
    for node in graph.graph.find_nodes(op="get_attr"):
        value = attrgetter(str(node.target))(graph)
        name = names.get(id(value))
        if name is None:
            continue
        if name not in nodes:
            nodes[name] = node
            if node.target != name:
                _register(graph, name, value)
                node.target = name
        else:
            node.replace_all_uses_with(nodes[name])
            graph.graph.erase_node(node)
    for node in graph.graph.nodes:
        # A pass that reads whole numbers in 32 bits has others write what it so read.
        if _writes(node) and operators.packet(node.args[0]) in _CASTS:
            source = node.args[0].args[0]
            if source.op == "get_attr" and source.target in names.values():
                node.update_arg(0, source)
    if names:
        graph.graph.lint()
        graph.recompile()


def _register(graph: GraphModule, name: str, value: torch.Tensor) -> None:
    *path, leaf = name.split(".")
    module: torch.nn.Module = graph
    for part in path:
        # Another buffer may have brought the module, which a new one would replace.
        if not hasattr(module, part):
            module.add_module(part, torch.nn.Module())
        module = getattr(module, part)
    module.register_buffer(leaf, value)


def _functional(node: Node) -> torch._ops.OpOverload | None:
    """The operator that gives what one in place writes; None: it is another operator."""
    if not _writes(node):
        return None
    namespace, name = node.target._schema.name.split("::")
    if not name.endswith("_") or name.endswith(_COPIES):
        return None
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    return getattr(packet, node.target._overloadname, None)


def _writes(node: Node) -> bool:
    """Tells whether an operator changes its first argument in place."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.arguments:
        return False
    alias = node.target._schema.arguments[0].alias_info
    return alias is not None and alias.is_write and bool(node.args)


def _writes_elsewhere(node: Node) -> bool:
    """Tells whether an operator changes other arguments (`out=`), or those of a list."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable:
        return False
    return not _writes(node) or not isinstance(node.args[0], Node)


def _root(node: Node, written: Mapping[Node, Node] = {}) -> Node | None:
    """The buffer that a tensor is, or is a view of; None: it is another one."""
    while node.op == "call_function":
        if node in written:
            node = written[node]
        elif _is_view(node):
            node = node.args[0]
        else:
            return None
    return node if node.op == "get_attr" else None


def _is_view(node: Node) -> bool:
    """Tells whether a result lies in the memory of the first argument."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.args:
        return False
    returned = node.target._schema.returns
    is_alias = bool(returned) and returned[0].alias_info is not None
    return is_alias and isinstance(node.args[0], Node)
