"""Tensors that parts of a program exchange with the rest, in the form that a runtime reads.

Some backends read and write rows only, or no tensors without dimensions. Such values are copied, or
get a dimension, before a part and behind it. Parts give no sizes; the program computes them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from etbuild.graph_calls import call
from executorch.exir.dialects._ops import ops
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from etlower import operators, partition_tags

_TO_ORDER = ops.edge.dim_order_ops._to_dim_order_copy.default
_SIZES = torch.SymInt | torch.SymFloat | torch.SymBool
_VIEW = ops.edge.aten.view_copy.default


def fit(program: ExportedProgram, min_rank: int = 0) -> None:
    """Hands parts tensors in rows, and takes such from them.

    Args:
      program: whose nodes have the tags of their partitions.
      min_rank: 1: a tensor without dimensions gets one, too.
    """
    with results_named(program):
        _fit(program, min_rank)
    program.graph_module.recompile()


def results_named(program: ExportedProgram) -> AbstractContextManager[None]:
    """Has the signature of a program follow its results, where other nodes become them.

    A result and the new value of a state are known by the names of their nodes.
    """
    hook = program.graph_signature.get_replace_hook()
    return program.graph_module._set_replace_hook(hook)  # type: ignore[no-any-return]


def _fit(program: ExportedProgram, min_rank: int) -> None:
    _keep_sizes(program)
    # Parts get them as they are.
    constants = operators.stored(program)
    for node in list(program.graph.nodes):
        if node.name in constants or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        own = partition_tags.of(node)
        readers: dict[str | None, list[Node]] = {}
        for user in node.users:
            readers.setdefault(partition_tags.of(user), []).append(user)
        others = [tag for tag in readers if tag != own]
        if not any(tag is not None for tag in (own, *others)) or not others:
            continue
        value = node.meta["val"]
        if not _lies_in_rows(value):
            _fit_order(node, own, readers)
        elif value.dim() < min_rank:
            _fit_rank(node, own, readers)


def _lies_in_rows(value: torch.Tensor) -> bool:
    """Tells whether a tensor lies in rows; sizes that follow from values say nothing of that.

    Kernels write rows of them whatever order torch gives them (`nonzero`).
    """
    try:
        return value.is_contiguous()
    except GuardOnDataDependentSymNode:
        return True


def _keep_sizes(program: ExportedProgram) -> None:
    """Computes sizes outside of parts where others than their part read them.

    Upstream has no place for a part's numbers: its plan of memory fails, or the first call.
    """
    graph = program.graph
    for node in reversed(list(graph.nodes)):
        tag = partition_tags.of(node)
        if tag is None or not isinstance(node.meta.get("val"), _SIZES):
            continue
        others = partition_tags.readers_outside(node)
        if others:
            with graph.inserting_before(node):
                made = graph.node_copy(node)
            made.meta = partition_tags.without(node)
            _read(node, made, others)
        if not node.users:
            graph.erase_node(node)


def _fit_order(node: Node, own: str | None, readers: dict[str | None, list[Node]]) -> None:
    order = list(node.meta["val"].dim_order())
    rows = node.meta["val"].contiguous()
    source = node
    if own is not None:
        # The part gives rows.
        node.meta["val"] = rows
        source = _behind(node, None, _TO_ORDER, (node,), {"dim_order": order})
        _read(node, source, readers.get(None, []))
    else:
        rows_of = _behind(node, None, _TO_ORDER, (node,), {"dim_order": sorted(order)})
    for tag, users in readers.items():
        if tag is not None and tag != own:
            _read(node, node if own is not None else rows_of, users)


def _fit_rank(node: Node, own: str | None, readers: dict[str | None, list[Node]]) -> None:
    wide = _behind(node, own, _VIEW, (node, [1]))
    last = wide
    for tag, users in readers.items():
        if tag != own:
            last = _behind(last, tag, _VIEW, (wide, []))
            _read(node, last, users)


def _behind(node: Node, tag: str | None, target: Any, args: Any, kwargs: Any = None) -> Node:
    """A call behind a node, in the part of that tag."""
    with node.graph.inserting_after(node):
        made = call(node, target, *args, **(kwargs or {}))
    made.meta = partition_tags.without(made)
    if tag is not None:
        made.meta[partition_tags.TAG] = tag
    return made


def _read(node: Node, instead: Node, users: list[Node]) -> None:
    for user in users:
        user.replace_input_with(node, instead)
