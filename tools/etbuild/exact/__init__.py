"""Operators written out as others, where a delegate or a kernel computes something else for them.

A rule has operators and when it applies; what a node is written as is an ordinary function of
tensors, traced with the node's shapes. Graphs without such a node stay as they are, to the byte.
"""

from etbuild.exact.layouts import has_channels_last
from etbuild.exact.table import CHOICES, FOR_KERNELS, REASONS, RULES
from etbuild.exact.writing import WriteOut, Written, write_out, write_out_before_quantization

__all__ = [
    "CHOICES",
    "FOR_KERNELS",
    "REASONS",
    "RULES",
    "WriteOut",
    "Written",
    "has_channels_last",
    "write_out",
    "write_out_before_quantization",
]
