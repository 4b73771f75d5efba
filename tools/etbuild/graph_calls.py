"""Calls that are written into an exported graph, with the values that later passes ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import Node

# Sizes that a node makes up, which is for one node to say.
_OF_ONE_NODE = "unbacked_bindings"


def call(at: Node, target: Any, *args: Any, **kwargs: Any) -> Node:
    """Writes a call where a node's graph inserts, at that node's place in the model.

    Args:
      at: the node that it is written for.
      target: an operator of ATen or of the edge dialect, or a function of sizes.
      *args: nodes with values, numbers, and lists of both.
      **kwargs: as `args`.

    Returns:
      The new node, with its value.
    """
    made = at.graph.call_function(target, args, kwargs)
    made.meta = {key: value for key, value in at.meta.items() if key != _OF_ONE_NODE}
    made.meta["val"] = value_of(made)
    return made


def value_of(node: Node) -> Any:
    """Computes the value of a call, without data, by those of its inputs."""
    from torch.fx.node import map_arg

    args, kwargs = map_arg((node.args, node.kwargs), lambda given: given.meta["val"])
    return node.target(*args, **kwargs)  # type: ignore[operator]


def sizes(at: Node, tensor: Node) -> list[Any]:
    """Lists a tensor's sizes: numbers, and calls for what varies, written as by `call`."""
    import torch

    return [
        size if isinstance(size, int) else call(at, torch.ops.aten.sym_size.int, tensor, dimension)
        for dimension, size in enumerate(tensor.meta["val"].shape)
    ]
