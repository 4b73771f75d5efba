"""Numbers of the memories that tensors of a graph lie in, which their values without data show."""

from __future__ import annotations

from typing import Any

from torch._ops import OpOverload
from torch.fx import Node
from torch.utils import _pytree as pytree

from etlower import operators


def of(node: Node) -> set[int]:
    """Finds the memories that the tensors of a value lie in."""
    values: list[Any] = operators.values(node)
    return {value.untyped_storage()._cdata for value in values}


def given(node: Node) -> set[int]:
    """Finds the memories of what a call is given."""
    return {memory for each in node.all_input_nodes for memory in of(each)}


def written(node: Node) -> set[int]:
    """Finds the memories that a call writes to, as its schema says."""
    if not isinstance(node.target, OpOverload) or not node.target._schema.is_mutable:
        return set()
    arguments = node.target._schema.arguments
    by_name = dict(zip([argument.name for argument in arguments], node.args, strict=False))
    by_name |= node.kwargs
    return {
        memory
        for argument in arguments
        if argument.alias_info is not None and argument.alias_info.is_write
        for value in pytree.tree_leaves(by_name.get(argument.name))
        if isinstance(value, Node)
        for memory in of(value)
    }
