"""Finds what XNNPACK would compute in the wrong layout, or refuse.

In a delegate, upstream's pass (channels_last_tagged_reshape_pass.py, 1.5.1) gives convolutions,
batch normalizations of their own, which become such, and what follows them channels that lie last.
Its softmax over the last dimension is over the channels then, in silence, and what lies in bytes it
converts for all that read it. Operators with a number, a tensor without dimensions, have no
channels: the pass computes what has one as an operand with channels that do not lie last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from etbuild.exact import has_channels_last
from etlower import partition_tags
from torch.fx import Node

# Of two operands, the second of which may be a number.
_OF_TWO = frozenset(("add", "div", "mul", "rsub", "sub"))
# Operators whose inputs the pass converts, so that rows lie last, and those whose results have
# channels that lie last.
_IN_ROWS = frozenset(("linear", "squeeze_copy", "unsqueeze_copy", "view_copy"))
# They give the order of memory that they are to.
_COPIES = frozenset(("_clone_dim_order", "_to_dim_order_copy"))
_IN_CHANNELS = frozenset(
    (
        # A convolution by then, where no other one takes it in.
        "_native_batch_norm_legit_no_training",
        *("amax", "avg_pool2d", "convolution", "max"),
        *("max_pool2d", "mean", "prelu", "upsample_bilinear2d"),
    )
)
# Pictures: the only tensors whose layout the pass changes.
_RANK = 4


def gets_channels_last(node: Node) -> bool:
    """Returns whether the first input of an operator of an Edge program gets channels last.

    What follows from an example input that has them gets them, too, also where its own numbers lie
    in rows, as of a slice.
    """
    return any(_name(source) in _IN_CHANNELS for source in _sources(node)) or any(
        map(_has_channels_last, _sources(node, _converts))
    )


def users_of_other_layout(node: Node) -> list[Node]:
    """Lists users of a delegated tensor in another layout than it has: the delegate's outputs, too.

    Args:
      node: of an Edge program whose delegates are tagged.
    """
    tag, is_last = node.meta[partition_tags.TAG], _lies_last(node)
    return [user for user in node.users if _wanted_last(user, node, tag, is_last) != is_last]


def is_copy(node: Node, tag: str) -> bool:
    """Tells whether a node is a copy in a delegate."""
    return partition_tags.of(node) == tag and _name(node) == "_clone_dim_order"


def _wanted_last(user: Node, node: Node, tag: str, is_last: bool) -> bool:
    """Tells whether a user reads a tensor with its channels last."""
    name = _name(user)
    is_read_outside = partition_tags.of(user) != tag or is_copy(user, tag)
    if is_read_outside or name in _IN_ROWS:
        return False
    others = [n for n in user.all_input_nodes if n is not node and _rank(n) == _RANK]
    return name in _IN_CHANNELS or is_last or (name in _OF_TWO and any(map(_lies_last, others)))


def _lies_last(node: Node) -> bool:
    """Tells whether a delegated tensor's channels lie last, as an operator before it wants them."""
    tag = partition_tags.of(node)
    queue, seen = [node], {node}
    while tag and queue:
        source = queue.pop()
        if _name(source) in _IN_CHANNELS:
            return True
        if _name(source) not in _IN_ROWS:
            more = [n for n in source.all_input_nodes if partition_tags.of(n) == tag]
            queue += [n for n in more if n not in seen]
            seen.update(more)
    return False


def _converts(node: Node) -> bool:
    """Tells whether a copy changes the order of memory: others are dropped in a delegate."""
    if _name(node) not in _COPIES:
        return False
    before, after = node.args[0].meta["val"], node.meta["val"]
    return bool(before.dim_order() != after.dim_order())


def _sources(node: Node, ends: Callable[[Node], bool] = lambda _: False) -> Iterator[Node]:
    """Lists what leads to the first input of a node.

    Args:
      node: whose input is meant.
      ends: tells of a node that what leads to it is not meant, beside operators in rows.
    """
    seen, queue = set(), [node.args[0]]
    while queue:
        source = queue.pop()
        if source in seen:
            continue
        seen.add(source)
        yield source
        if _name(source) not in _IN_ROWS and not ends(source):
            queue += source.all_input_nodes


def _has_channels_last(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and has_channels_last(value)


def _rank(operand: object) -> int:
    return operand.meta["val"].dim() if isinstance(operand, Node) else 0


def _name(node: Node) -> str:
    """An operator's name without namespace and overload: "relu" of aten.relu_.default; else ""."""
    return getattr(node.target, "__name__", "").rpartition(".")[0].rpartition(".")[2].rstrip("_")
