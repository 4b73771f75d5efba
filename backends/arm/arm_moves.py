"""Permutations that upstream's passes (ExecuTorch 1.5.1) move before an operator of two inputs.

They do where one input is a number, and take the first input for the other one: of `1 - x` the
number is permuted, and the result is not, in silence.
"""

from __future__ import annotations

from typing import Any

from etlower.replacing import replace
from executorch.backends.arm._passes import PropagateViewCopyPermuteUpPass
from executorch.backends.transforms.fuse_identical_input_transforms_pass import (
    FuseIdenticalInputTransformsPass,
)
from torch.fx import Node


def install() -> None:
    """Has, for this process, upstream's pass permute the input that is no number."""
    replace(PropagateViewCopyPermuteUpPass, "_move_node", _move)


def _move(inner: Any, self: Any, node: Node, frontier: Node, previous: Node) -> None:
    """Moves a permutation.

    Args:
      inner: upstream's function.
      self: its pass.
      node: the permutation.
      frontier: the first operator that it moves before, or an input of the graph.
      previous: the operator behind that.
    """
    inputs = frontier.all_input_nodes
    others = [given for given in inputs if not _is_number(given, node)]
    if len(inputs) == 1 or len(others) != 1 or others[0] is inputs[0]:
        inner(self, node, frontier, previous)
        return
    [moved], [permuted] = others, node.all_input_nodes
    node.replace_all_uses_with(permuted)
    node.replace_input_with(permuted, moved)
    frontier.replace_input_with(moved, node)
    frontier.prepend(node)


def _is_number(given: Node, node: Node) -> bool:
    rank = node.meta["val"].dim()
    return bool(FuseIdenticalInputTransformsPass.is_layout_invariant(given, rank))
