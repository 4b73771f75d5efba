"""Finds what XNNPACK would compute in the wrong layout, or refuse.

In a delegate, upstream's pass (channels_last_tagged_reshape_pass.py, 1.5.1) gives convolutions,
batch normalizations of their own, which become such, and what follows them channels that lie last.
It goes wrong in three cases, the first two often without an error, and what is found here is left
out of them:

- softmax over the last dimension, which in that layout has the channels;
- the input of a convolution that is quantized dynamically. The pass converts what the delegate gets
  in place of what the convolution gets, and all that reads it then computes in that layout;
- the input of a linear layer that is quantized dynamically, between which and its quantization the
  pass puts a conversion, behind pooling and resizing, too, and of an example input whose channels
  lie last.

Numbers are tensors without dimensions, which have no channels: the pass computes what has one as an
operand with channels that do not lie last.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

import torch
from etbuild.exact import has_channels_last
from etlower import partition_tags
from torch.fx import Node

# Computed alike in all layouts. Names without namespace and overload.
_ANY_LAYOUT = frozenset(
    [
        "abs",
        "adaptive_avg_pool2d",
        "add",
        "avg_pool2d",
        "batch_norm",
        "ceil",
        "clamp",
        "clone",
        "contiguous",
        "detach",
        "div",
        "dropout",
        "elu",
        "exp",
        "floor",
        "gelu",
        "group_norm",
        "hardsigmoid",
        "hardswish",
        "hardtanh",
        "instance_norm",
        "layer_norm",
        "leaky_relu",
        "log",
        "max_pool2d",
        "mean",
        "mul",
        "neg",
        "prelu",
        "relu",
        "relu6",
        "rsqrt",
        "rsub",
        "sigmoid",
        "silu",
        "sqrt",
        "square",
        "sub",
        "tanh",
        "to",
        "upsample_bilinear2d",
        "upsample_nearest2d",
    ]
)
# Operators of ATen programs whose results have rows that lie last: the pass converts their inputs,
# or they are not delegated.
_ATEN_IN_ROWS = frozenset(
    ("flatten", "layer_norm", "linear", "reshape", "squeeze", "unflatten", "unsqueeze", "view")
)
# ExecuTorch computes them.
_NORMS = frozenset(("group_norm", "instance_norm", "layer_norm"))
_TAKEN = (_ANY_LAYOUT | _ATEN_IN_ROWS | {"cat"}) - _NORMS
# Of two operands, the second of which may be a number.
_OF_TWO = frozenset(("add", "div", "mul", "rsub", "sub"))
# The same of Edge programs, and those whose results have channels that lie last.
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


def keeps_layout(convolution: Node) -> bool:
    """Returns whether the input of a convolution may be quantized dynamically.

    Args:
      convolution: of a graph of ATen operators, before it is quantized.
    """
    chain, source = [convolution], convolution.args[0]
    while not _follows_convolution(source) and _name(source) in _ANY_LAYOUT:
        if len(source.users) > 1 or _has_number(source) or _name(source) == "silu":
            return False
        # The pass converts the first of several operands alone.
        if sum(_rank(each) == _RANK for each in source.all_input_nodes) > 1:
            return False
        chain.append(source)
        source = source.args[0]
    if _follows_convolution(source):
        # The pass knows that channels lie last.
        return True
    # The pass stops at a list of tensors.
    if source.op == "call_function" and _name(source) != "cat":
        return False
    earlier = set(_until(convolution))
    return all(
        user in chain or user not in earlier or _is_convolution(user) for user in source.users
    )


def has_rows(linear: Node) -> bool:
    """Returns whether the input of a linear layer may be quantized dynamically.

    Args:
      linear: of a graph of ATen operators, before it is quantized.
    """
    return linear.args[0].meta["val"].dim() != _RANK or not (
        any(
            _gives_channels_last(node) or any(map(_becomes_convolution, (node, *node.users)))
            for node in _sources(linear, _ATEN_IN_ROWS)
        )
        or any(map(_has_channels_last, _sources(linear, _ATEN_IN_ROWS | {"contiguous"})))
    )


def gets_channels_last(node: Node) -> bool:
    """Returns whether the first input of an operator of an Edge program gets channels last.

    What leads to a dynamic quantization may get them for what is quantized. So does what follows
    from an example input that has them, also where its own numbers lie in rows, as of a slice.
    """
    return any(
        _name(source) in _IN_CHANNELS or _is_quantized(source)
        for source in _sources(node, _IN_ROWS)
    ) or any(map(_has_channels_last, _sources(node, _IN_ROWS, _converts)))


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


def _is_quantized(node: Node) -> bool:
    """Tells whether a tensor, or what is computed of it, is quantized dynamically."""
    seen, queue = {node}, [node]
    while queue:
        for user in queue.pop().users:
            if _name(user) == "choose_qparams":
                return True
            if user not in seen and _name(user) not in _IN_ROWS:
                seen.add(user)
                queue.append(user)
    return False


def _converts(node: Node) -> bool:
    """Tells whether a copy changes the order of memory: others are dropped in a delegate."""
    if _name(node) not in _COPIES:
        return False
    before, after = node.args[0].meta["val"], node.meta["val"]
    return bool(before.dim_order() != after.dim_order())


def _never(node: Node) -> bool:
    return False


def _sources(
    node: Node, ends: Container[str], stops: Callable[[Node], bool] = _never
) -> Iterator[Node]:
    """Lists what leads to the first input of a node.

    Args:
      node: whose input is meant.
      ends: names of operators behind which it is not followed.
      stops: tells the same of a node.
    """
    seen, queue = set(), [node.args[0]]
    while queue:
        source = queue.pop()
        if source in seen:
            continue
        seen.add(source)
        yield source
        if _name(source) not in ends and not stops(source):
            queue += source.all_input_nodes


def _follows_convolution(node: Node) -> bool:
    """Tells whether a convolution leads to a node by operators of its part, of any layout."""
    if _is_convolution(node):
        return True
    if _has_number(node) or _name(node) in _NORMS:
        return False
    if not (_name(node) in _ANY_LAYOUT or _name(node) == "cat"):
        return False
    given = node.all_input_nodes
    following = [each for each in given if _follows_convolution(each)]
    # What ExecuTorch computes of a convolution's result ends the convolution's part.
    return bool(following) and not any(
        _comes_from_outside(each) for each in given if each not in following
    )


def _comes_from_outside(node: Node) -> bool:
    """Tells whether a value follows from a convolution by what XNNPACK leaves to ExecuTorch."""
    outside = [
        source
        for source in _leading_to(node)
        if source.op == "call_function"
        and not _is_convolution(source)
        and _name(source) not in _TAKEN
    ]
    return any(_is_convolution(each) for start in outside for each in _leading_to(start))


def _leading_to(node: Node) -> set[Node]:
    """A node and all that it follows from."""
    seen, queue = {node}, [node]
    while queue:
        more = set(queue.pop().all_input_nodes) - seen
        seen |= more
        queue += more
    return seen


def _has_number(node: Node) -> bool:
    """Tells whether an operand of a node, or of what it is decomposed to, is no picture."""
    name = _name(node)
    if name in ("hardsigmoid", "instance_norm"):
        return True
    return name in _OF_TWO and any(_rank(operand) != _RANK for operand in node.args[:2])


def _has_channels_last(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and has_channels_last(value)


def _rank(operand: object) -> int:
    return operand.meta["val"].dim() if isinstance(operand, Node) else 0


def _until(node: Node) -> Iterator[Node]:
    for other in node.graph.nodes:
        if other is node:
            return
        yield other


def _is_convolution(node: Node) -> bool:
    return _name(node).startswith("conv")


def _becomes_convolution(node: Node) -> bool:
    return _is_convolution(node) or _name(node) == "batch_norm"


def _gives_channels_last(node: Node) -> bool:
    """Tells whether an operator of an ATen program may be one whose channels the pass puts last."""
    name = _name(node)
    if name == "mean":
        dims = node.args[1] if len(node.args) > 1 else ()
        return isinstance(dims, list | tuple) and sorted(dim % _RANK for dim in dims) == [2, 3]
    return name.removesuffix("_with_indices").removeprefix("adaptive_") in _IN_CHANNELS


def _name(node: Node) -> str:
    """An operator's name without namespace and overload: "relu" of aten.relu_.default; else ""."""
    return getattr(node.target, "__name__", "").rpartition(".")[0].rpartition(".")[2].rstrip("_")
