"""Exported programs whose .pt2 files depend on the model alone.

torch.export.save keeps what differs from run to run and from folder to folder: stack traces, and
addresses as names of graphs and modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch._export.serde.serialize import serialize
from torch.fx.traceback import NodeSource
from torch.utils import _pytree

_ADDRESS = re.compile(r"0x[0-9a-f]+")
# Where a node has none torch looks for one, each time that it traces: a quarter of a lowering.
_NOWHERE = 'File "exported.pt2", line 1, in forward'
# torch's own operators are there for every reader.
_BUILT_IN = frozenset({"aten", "prim", "prims"})


def neutral(program: torch.export.ExportedProgram) -> None:
    """Takes out of a program what differs from run to run, and what says where its source lies.

    Lowering needs nothing of it but which nodes came from one: debug handles are counted by that.
    """
    graphs: dict[int, int] = {}
    modules: dict[str, str] = {}
    for node in _nodes(program):
        if "stack_trace" in node.meta:
            node.meta["stack_trace"] = _NOWHERE
        if node.meta.get("from_node"):
            node.meta["from_node"] = [
                NodeSource._from_dict(_numbered(source.to_dict(), graphs))
                for source in node.meta["from_node"]
            ]
        stack = node.meta.get("nn_module_stack")
        if stack:
            node.meta["nn_module_stack"] = {
                _number(key, modules): value for key, value in stack.items()
            }


def same_graph(one: torch.export.ExportedProgram, other: torch.export.ExportedProgram) -> bool:
    """Whether programs that `neutral` was applied to differ in nothing but what has gradients."""
    return _graph(one) == _graph(other)


def foreign_operators(program: torch.export.ExportedProgram) -> list[str]:
    """Names of the operators that are not torch's own: who reads the file must have them."""
    found = set()
    for node in _nodes(program):
        for target in (node.target, *_pytree.tree_leaves((node.args, node.kwargs))):
            if isinstance(target, torch._ops.OpOverload) and target.namespace not in _BUILT_IN:
                found.add(target.name())
    return sorted(found)


def _nodes(program: torch.export.ExportedProgram) -> Iterator[torch.fx.Node]:
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from module.graph.nodes


def _numbered(source: dict[str, Any], graphs: dict[int, int]) -> dict[str, Any]:
    return {
        **source,
        "target": _ADDRESS.sub("0x", source["target"]),
        "graph_id": graphs.setdefault(source["graph_id"], len(graphs)),
        "from_node": [_numbered(one, graphs) for one in source["from_node"]],
    }


def _number(key: str, modules: dict[str, str]) -> str:
    """A module's key in the order in which they are met; torch takes the address of the module."""
    mark = re.match(r"\d+", key)
    if not mark:
        return key
    return modules.setdefault(mark[0], str(len(modules))) + key[mark.end() :]


def _graph(program: torch.export.ExportedProgram) -> bytes:
    written = serialize(
        program,
        serialize_state_dict=False,
        serialize_constants=False,
        serialize_example_inputs=False,
    ).exported_program
    return re.sub(rb'"requires_grad": ?true', b'"requires_grad": false', written)
