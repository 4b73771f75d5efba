"""Parts of rows and pictures whose windows QNN's compiler (2.5.0 of its package) reads elsewhere.

Behind a slice that begins later than its tensor, and behind a part of a split, convolutions and
averages over windows read other elements, or memory that nothing was written to, which may end the
process; so do they through activations and concatenations. Parts of the channels are right, and
those of what was padded.
"""

from __future__ import annotations

import operator

from etbuild.exact.nodes import argument_of
from etlower import operators
from qualcomm_differences import ACTIVATIONS, VIEWS
from torch.fx import Node

_CHANNELS = 1
_SPLITS = frozenset(("chunk", "split", "split_with_sizes"))
_TURNS = frozenset(("permute", "transpose"))
_THROUGH = frozenset(
    ("alias", "cat", "clone", "_clone_dim_order", "contiguous", "expand", "slice", "stack")
)
_WINDOWS = frozenset(
    (
        *("avg_pool1d", "avg_pool2d", "avg_pool3d", "conv1d", "conv2d", "conv3d"),
        *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"),
    )
)


def has_windows_elsewhere(node: Node) -> bool:
    """Tells whether windows are read of a part that a call takes of rows or pictures.

    Args:
      node: a call of a program in ATen's or the edge dialect.
    """
    packet = operators.packet(node).removesuffix("_copy")
    if packet == "slice":
        dim, start = argument_of(node, 1, "dim", 0), argument_of(node, 2, "start", 0)
        begins_later = start not in (0, None)
    elif packet in _SPLITS:
        dim, begins_later = argument_of(node, 2, "dim", 0), True
    else:
        return False
    if operators.packet(node.args[0]) == "constant_pad_nd":
        return False
    rank = operators.inputs(node)[0].dim()
    return begins_later and _reach_windows(node, dim % rank == _CHANNELS)


def _reach_windows(node: Node, is_of_channels: bool) -> bool:
    """Tells whether windows move over what a value is, as it is or behind an activation."""
    queue = [(node, is_of_channels)]
    seen = {*queue}
    for given, in_channels in queue:
        for user in given.users:
            packet = operators.packet(user).removesuffix("_copy")
            if packet in _WINDOWS and not in_channels:
                return True
            turns = packet in _TURNS or packet in VIEWS
            goes_on = turns or packet in _THROUGH or packet in ACTIVATIONS
            is_same = user.target is operator.getitem or "quantize" in packet
            read = user, in_channels and not turns
            if read not in seen and (goes_on or is_same):
                seen.add(read)
                queue.append(read)
    return False
