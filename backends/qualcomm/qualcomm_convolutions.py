"""Convolutions of which QNN's compiler (2.5.0 of its package) makes something else."""

from __future__ import annotations

from typing import Any

import torch
from etbuild.exact.nodes import argument_of
from etlower import operators
from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS
from torch.fx import Node

_CONVOLUTIONS = frozenset(("conv1d", "conv2d", "conv3d"))
OF_ROWS = ("conv1d", "conv_transpose1d")
_ROW, _PICTURE, _VOLUME = 1, 2, 3
# Elements of a row that QNN computes at once.
_LANES = 8


def convolves_otherwise(node: Node) -> bool:
    padding = argument_of(node, 4, "padding", 0)
    if _is_transposed(node):
        return transposes_otherwise(node) or has_other_kernel(node)
    if _multiplies_channels(node) or _leaves_planes(node) or _keeps_short_rows(node):
        return True
    return is_outside(node, padding) or has_other_kernel(node)


def has_other_kernel(node: Node) -> bool:
    """Tells whether upstream rearranges a kernel that is computed, as by a weight norm.

    Of rows, and where a transposed one is dilated, it takes what the kernel is computed of.
    """
    kernel = node.args[1]
    if "dequantize" in operators.name(kernel):  # type: ignore[arg-type]
        kernel = kernel.args[0]  # type: ignore[union-attr]
    if kernel.op != "call_function":  # type: ignore[union-attr]
        return False
    dilation = argument_of(node, 5, "dilation", 1)
    steps = dilation if isinstance(dilation, list | tuple) else [dilation]
    is_of_rows = node.args[1].meta["val"].dim() == _ROW + 2  # type: ignore[union-attr]
    return is_of_rows or (bool(_is_transposed(node)) and max(steps) > 1)


def reads_kernel(node: Node) -> bool:
    """Tells whether an operator reads what a convolution of another kind has for its kernel.

    QNN gives the kernel the layout of the one that it meets first. Of convolutions the transposed
    one counts for the other.
    """
    own = _is_transposed(node)
    for source in node.all_input_nodes:
        users = source.users if source.op == "placeholder" else ()
        kinds = {_is_transposed(user) for user in users if user.args[1:2] == (source,)} - {None}
        is_kernel = own is not None and node.args[1] is source
        if (own and False in kinds) if is_kernel else kinds:
            return True
    return False


def _is_transposed(node: Node) -> bool | None:
    """Tells whether a convolution is transposed; None: it is another operator."""
    name = operators.packet(node)
    if name == "convolution":
        return bool(node.args[6])
    if name.startswith("conv_transpose"):
        return True
    return False if name in _CONVOLUTIONS else None


def is_outside(node: Node, padding: Any) -> bool:
    """Tells whether a convolution has windows that lie in a padding as a whole."""
    sizes = node.args[1].meta["val"].shape[2:]  # type: ignore[union-attr]
    dilation = argument_of(node, 5, "dilation", 1)
    if isinstance(padding, str):
        return False
    paddings, steps = (
        [each] * len(sizes) if isinstance(each, int) else [*each] * (len(sizes) // len(each))
        for each in (padding, dilation)
    )
    windows = [step * (size - 1) + 1 for step, size in zip(steps, sizes, strict=True)]
    return any(pad >= window for pad, window in zip(paddings, windows, strict=False))


def _leaves_planes(node: Node) -> bool:
    """Tells whether a convolution of volumes has a single window in depth, and planes behind it."""
    volume, weight = (each.meta["val"] for each in node.args[:2])  # type: ignore[union-attr]
    if weight.dim() != _VOLUME + 2 or node.meta["val"].shape[-_VOLUME] != 1:
        return False
    padding, dilation = (
        each[0] if isinstance(each, list | tuple) else each
        for each in (
            argument_of(node, 4, "padding", 0),
            argument_of(node, 5, "dilation", 1),
        )
    )
    if isinstance(padding, str):
        return True
    depth = volume.shape[-_VOLUME] + 2 * padding
    return bool(depth > dilation * (weight.shape[2] - 1) + 1)


def is_row(node: Node) -> bool:
    value = node.args[0].meta["val"]  # type: ignore[union-attr]
    return isinstance(value, torch.Tensor) and value.dim() == _ROW + 2


def _keeps_short_rows(node: Node) -> bool:
    """Tells whether a convolution of floats gives rows of the size that it got, and reads far.

    QNN is right where a kernel spans a quarter of the row at most, where each channel has a kernel
    of its own, and where the row is no multiple of eight elements.
    """
    row, weight = (each.meta["val"] for each in node.args[:2])  # type: ignore[union-attr]
    size = row.shape[-1]
    is_row = weight.dim() == _ROW + 2 or (row.dim() == _PICTURE + 2 and row.shape[-2] == 1)
    if QCOM_QUANT_ATTRS in node.meta or not is_row or size % _LANES:
        return False
    groups = node.args[-1] if isinstance(node.args[-1], int) else 1
    dilation = argument_of(node, 5, "dilation", 1)
    step = dilation[-1] if isinstance(dilation, list | tuple) else dilation
    has_own = weight.shape[1] == 1 and groups > 1
    keeps_size = node.meta["val"].shape[-1] == size
    return bool(keeps_size and not has_own and 4 * step * (weight.shape[-1] - 1) > size)


def _multiplies_channels(node: Node) -> bool:
    """Tells whether a convolution with steps, or a dilated one, makes several channels of each."""
    weight = node.args[1].meta["val"]  # type: ignore[union-attr]
    given = [argument_of(node, 3, "stride", 1), argument_of(node, 5, "dilation", 1)]
    steps = [n for each in given for n in (each if isinstance(each, list | tuple) else [each])]
    groups = node.args[-1] if isinstance(node.args[-1], int) else 1
    return bool(weight.shape[1] == 1 and weight.shape[0] > groups > 1 and max(steps, default=1) > 1)


def transposes_otherwise(node: Node) -> bool:
    """Tells whether a transposed convolution is of volumes in groups, or goes beyond its windows.

    QNN mixes such groups, and leaves the bias out of what lies behind the last window.
    """
    is_general = operators.packet(node) == "convolution"
    if is_general and not node.args[6]:
        return False
    extra = argument_of(node, 7 if is_general else 5, "output_padding", 0)
    padding = argument_of(node, 4, "padding", 0)
    groups = argument_of(node, 8 if is_general else 6, "groups", 1)
    rank = node.args[1].meta["val"].dim() - 2  # type: ignore[union-attr]
    paddings, extras = (
        [each] * rank if isinstance(each, int) else [*each] * (rank // len(each))
        for each in (padding, extra)
    )
    is_beyond = any(more > pad for more, pad in zip(extras, paddings, strict=True))
    return is_beyond or (rank == _VOLUME and groups > 1)
