"""Operators on integers with a scale that QNN's compiler (2.5.0 of its package) counts otherwise.

Those that it computes otherwise in all types are in qualcomm_differences.py.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from etlower import operators
from executorch.backends.qualcomm.utils.constants import (
    QCOM_QUANT_ATTRS,
    QCOM_QUANT_MAX,
    QCOM_QUANT_MIN,
    QCOM_SCALE,
    QCOM_ZERO_POINT,
)
from qualcomm_differences import READ_AT_ONCE, VIEWS, activated, bounds_of
from torch.fx import Node

_BYTE = 255
# Steps of 1/256 leave 20 dB or so of probabilities up to this one.
_LEAST_PROBABLE = 1 / 16
_PICTURE = 4


def is_counted_otherwise(node: Node) -> bool:
    """Tells whether QNN computes something else of integers with a scale than an operator says."""
    packet = operators.packet(node)
    if packet == "avg_pool2d":
        # Windows that are cut off have divisors of their own.
        return len(node.args) > 4 and bool(node.args[4])
    if packet == "constant_pad_nd":
        amounts = node.args[1]
        is_even = amounts[::2] == amounts[1::2]
        is_averaged = any(operators.packet(user) == "avg_pool2d" for user in node.users)
        return not is_even or is_averaged or _pads_beyond(node)
    if packet == "convolution" and node.args[6]:
        # It mixes up the scales of channels in groups, but for a channel each.
        groups = node.args[8]
        return bool(1 < groups < node.args[1].meta["val"].shape[0])
    if packet == "cat":
        return _joins_probabilities(node)
    if packet in ("mean", "sum"):
        return _sums_products(node)
    if packet == "linear":
        # The compiler never ends on a single number.
        return bool(node.args[0].meta["val"].numel() == 1)
    if packet == "native_layer_norm":
        # What lies in memory behind fewer factors gets into the payload: others in each build.
        return bool(node.args[1][-1] < READ_AT_ONCE)
    if packet == "_softmax":
        # It is computed in steps of 1/256 from 0 on, whatever its scale.
        scale = node.meta[QCOM_QUANT_ATTRS]
        is_small = scale[QCOM_SCALE] * _BYTE < _LEAST_PROBABLE
        is_narrow = scale[QCOM_QUANT_MAX] <= _BYTE
        return bool(is_narrow and (is_small or scale[QCOM_ZERO_POINT] != 0))
    if packet == "log":
        # In steps that are denormal in 16-bit floats it is the end of the scale for all numbers.
        least = torch.finfo(torch.float16).smallest_normal
        return bool(node.meta[QCOM_QUANT_ATTRS][QCOM_SCALE] < least)
    if bounds_of(node) and node.meta[QCOM_QUANT_ATTRS][QCOM_QUANT_MAX] > _BYTE:
        return _bounds_within(node)
    if packet == "mul" and node.meta[QCOM_QUANT_ATTRS][QCOM_QUANT_MAX] > _BYTE:
        is_curved = any(operators.packet(given) == "tanh" for given in node.all_input_nodes)
        return is_curved or _gates_norm(node)
    if packet == "_native_batch_norm_legit_no_training":
        # Of rows it takes the features for channels.
        return bool(node.args[0].meta["val"].dim() != _PICTURE)
    return packet == "cumsum"


def _gates_norm(node: Node) -> bool:
    """Tells whether a product is the SiLU of a layer behind a norm, which QNN fuses in 16 bits."""
    source = activated(node)
    while isinstance(source, Node) and source.op == "call_function":
        packet = operators.packet(source)
        if packet.endswith("layer_norm") or packet == "rms_norm":
            return True
        is_view = packet.removesuffix("_copy") in {*VIEWS, "permute"}
        if not is_view and packet != "linear" and source.target is not operator.getitem:
            return False
        source = source.args[0]
    return False


def _joins_probabilities(node: Node) -> bool:
    """Tells whether a sigmoid is joined in five dimensions, where its steps stay those of 1/256."""
    if node.meta["val"].dim() <= _PICTURE:
        return False
    for source in node.all_input_nodes:
        while operators.packet(source).removesuffix("_copy") in VIEWS:
            source = source.args[0]  # type: ignore[assignment]
        if operators.packet(source) in ("hardsigmoid", "sigmoid"):
            return True
    return False


def _sums_products(node: Node) -> bool:
    """Tells whether a row of products is summed up, which QNN makes a product of matrices.

    It leaves out a ReLU between the two, and has 8 bits where 16 are meant.
    """
    source = node.args[0]
    rank = source.meta["val"].dim()  # type: ignore[union-attr]
    dims = node.args[1] if len(node.args) > 1 else None
    if not isinstance(dims, list | tuple) or {int(each) % rank for each in dims} != {rank - 1}:
        return False
    is_bounded = bounds_of(source) is not None or operators.packet(source) == "relu"
    if is_bounded:
        source = source.args[0]  # type: ignore[union-attr]
    is_wide = node.meta[QCOM_QUANT_ATTRS][QCOM_QUANT_MAX] > _BYTE
    return operators.packet(source) == "mul" and (is_bounded or is_wide)


def _pads_beyond(node: Node) -> bool:
    """Tells whether a padding is beyond the scale of what is padded, to which QNN bounds it."""
    padding = node.args[2] if len(node.args) > 2 else 0
    scale = node.args[0].meta.get(QCOM_QUANT_ATTRS)  # type: ignore[union-attr]
    return scale is not None and _steps_inside(padding, scale) < -0.5


def _bounds_within(node: Node) -> bool:
    """Tells whether a bound is within its result's scale, of which QNN makes nothing in 16 bits."""
    scale = node.meta[QCOM_QUANT_ATTRS]
    bounds = [bound for bound in bounds_of(node) or () if bound is not None]
    return any(_steps_inside(bound, scale) > 1 for bound in bounds)


def _steps_inside(number: Any, scale: dict[str, Any]) -> float:
    """Counts the steps between a number and the nearest end of a scale; below 0: it is beyond."""
    place = float(number / scale[QCOM_SCALE] + scale[QCOM_ZERO_POINT])
    return min(place - scale[QCOM_QUANT_MIN], scale[QCOM_QUANT_MAX] - place)
