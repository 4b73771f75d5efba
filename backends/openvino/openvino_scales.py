"""Scales of 8 bits in which OpenVINO (2025.4) computes zero exactly.

It computes a value as a step times the scale and a sum of 32-bit floats. With most scales and zero
points, such as the 127 of symmetric ones, that is rounded, and the step for zero becomes a number
beside it, above or below: roots and powers of it are NaN, and comparisons and signs give the other
answer. With a power of two for the zero point, and few bits in the scale, nothing is rounded.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from etlower import operators

_SCALED = ("quantize_per_tensor", "dequantize_per_tensor")
# Steps from the least one to zero, of symmetric scales, and what takes their place.
_SYMMETRIC, _EVEN = 127, 128
# Significant bits: the steps' 255 and the scale are to have 24 together; the less, the more the
# scale may be multiplied with.
_BITS, _BITS_BESIDE = 12, 8


def keep_zero(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Changes scales and zero points of a quantized graph's results to such.

    Args:
      graph: is changed; its constants are not quantized yet.
    """
    for node in graph.graph.nodes:
        if operators.packet(node) in _SCALED:
            node.args = (node.args[0], *_kept(*node.args[1:]))
    graph.recompile()
    return graph


def _kept(scale: float, zero: int, low: int, high: int, *rest: Any) -> tuple[Any, ...]:
    """The arguments of a quantization with a range that is as wide at least."""
    if (zero - low, high - low) == (_SYMMETRIC, 255):
        scale, zero = scale * _EVEN / _SYMMETRIC, low + _EVEN
    before = zero - low
    is_power = not before & (before - 1)
    return _shortened(scale, _BITS if is_power else _BITS_BESIDE), zero, low, high, *rest


def _shortened(scale: float, bits: int) -> float:
    """The least number that is not below another and has so many significant bits."""
    fraction, exponent = math.frexp(scale)
    return math.ldexp(math.ceil(math.ldexp(fraction, bits)), exponent - bits)
