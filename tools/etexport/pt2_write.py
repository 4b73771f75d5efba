"""Exported programs whose .pt2 files depend on the model alone.

torch.export.save keeps what differs from run to run and from folder to folder: stack traces, and
addresses as names of graphs and modules.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sympy
import torch
from etfast.unit import replaced
from torch._export.serde import serialize
from torch.fx.traceback import NodeSource
from torch.utils import _pytree

from etexport import pt2_read

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


def same_graph(first: torch.export.ExportedProgram, second: torch.export.ExportedProgram) -> bool:
    """Whether programs that `neutral` was applied to differ in nothing but what has gradients."""
    return _graph(first) == _graph(second)


def save(program: torch.export.ExportedProgram, path: Path) -> dict[str, str]:
    """Writes a .pt2 file with each size as it was traced.

    Where inputs share a dimension each has a symbol of its own, and one stands for the others.
    torch's writer keeps that one only; which input a size is then read from differs.

    Returns:
      Symbols to the expressions that stand for them, for `pt2_read.substitute`.
    """
    env = pt2_read.environment(program)
    if env is None:
        torch.export.save(program, path)
        return {}
    ranges = program.range_constraints
    more = {s: env.var_to_range[s] for s in env.replacements if s in env.var_to_range}
    more = {symbol: limits for symbol, limits in more.items() if symbol not in ranges}
    ranges.update(more)
    try:
        with _as_traced():
            torch.export.save(program, path)
    finally:
        for symbol in more:
            del ranges[symbol]
    return {symbol.name: sympy.srepr(env.replace(symbol)) for symbol in sorted(more, key=str)}


def detached(program: torch.export.ExportedProgram) -> list[str]:
    """Tensors without gradients in the memory of others with them; torch's reader gives them."""
    tensors = {**program.state_dict, **program.constants}
    tensors = {name: t for name, t in tensors.items() if isinstance(t, torch.Tensor) and t.numel()}
    trained = {t.untyped_storage().data_ptr() for t in tensors.values() if t.requires_grad}
    return sorted(
        name
        for name, tensor in tensors.items()
        if not tensor.requires_grad and tensor.untyped_storage().data_ptr() in trained
    )


def _as_traced() -> contextlib.AbstractContextManager[None]:
    """Makes torch write the symbols that sizes had, not the expressions that replaced them."""
    original = serialize._print_sympy

    def printed(size: Any) -> str:
        node = getattr(size, "node", None)
        return original(size if node is None else node._expr)

    return replaced((serialize, "_print_sympy", printed))


def foreign_operators(program: torch.export.ExportedProgram) -> list[str]:
    """Names of the operators that are not torch's own: who reads the file must have them."""
    operators = set()
    for node in _nodes(program):
        for target in (node.target, *_pytree.tree_leaves((node.args, node.kwargs))):
            if isinstance(target, torch._ops.OpOverload) and target.namespace not in _BUILT_IN:
                operators.add(target.name())
    return sorted(operators)


def _nodes(program: torch.export.ExportedProgram) -> Iterator[torch.fx.Node]:
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from module.graph.nodes


def _numbered(source: dict[str, Any], graphs: dict[int, int]) -> dict[str, Any]:
    return {
        **source,
        "target": _ADDRESS.sub("0x", source["target"]),
        "graph_id": graphs.setdefault(source["graph_id"], len(graphs)),
        "from_node": [_numbered(inner, graphs) for inner in source["from_node"]],
    }


def _number(key: str, modules: dict[str, str]) -> str:
    """A module's key in the order in which they are met; torch takes the address of the module."""
    mark = re.match(r"\d+", key)
    if not mark:
        return key
    return modules.setdefault(mark[0], str(len(modules))) + key[mark.end() :]


def _graph(program: torch.export.ExportedProgram) -> bytes:
    with _as_traced():
        written = serialize.serialize(
            program,
            serialize_state_dict=False,
            serialize_constants=False,
            serialize_example_inputs=False,
        ).exported_program
    return re.sub(rb'"requires_grad": ?true', b'"requires_grad": false', written)
