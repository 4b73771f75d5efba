"""Operators of which QNN's compiler (2.5.0 of its package) makes something else.

Each was run on its simulator beside eager mode, with parameters around those that differ. What is
found here is left to ExecuTorch's own kernels.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from etbuild import BuildError
from etlower import operators
from executorch.backends.qualcomm.utils.constants import (
    QCOM_QUANT_ATTRS,
    QCOM_QUANT_MAX,
    QCOM_QUANT_MIN,
    QCOM_SCALE,
    QCOM_ZERO_POINT,
)
from torch.fx import Node


def is_computed_otherwise(node: Node) -> bool:
    """Tells whether QNN computes something else than an operator says.

    Args:
      node: a call of a program in ATen's or the edge dialect.
    """
    packet = operators.packet(node)
    tensors = [*operators.values(node), *operators.inputs(node)]
    if any(tensor.dtype in _FLAT and tensor.dim() > _PICTURE for tensor in tensors):
        return True
    if packet == "index" and any(each.dim() > _PICTURE for each in operators.values(node)):
        return True
    # QNN takes bytes for fractions.
    if "quantize" not in operators.name(node) and any(tensor.dtype in _BYTES for tensor in tensors):
        return True
    # They end the simulator, or come back as 32 bits.
    if operators.is_empty(node) or any(tensor.dtype == torch.float64 for tensor in tensors):
        return True
    if packet.removesuffix("_copy") in _MOVES and _is_whole(node) and not _is_index(node):
        return True
    if packet in _JOINING and _joins_activations(node):
        return True
    return _CHECKS.get(packet, _never)(node)


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
    if packet == "linear":
        # The compiler never ends on a single number.
        return bool(node.args[0].meta["val"].numel() == 1)
    if packet == "_softmax":
        # It is computed in steps of 1/256, whatever its scale.
        scale = node.meta[QCOM_QUANT_ATTRS]
        is_narrow = scale[QCOM_QUANT_MAX] <= _BYTE
        return bool(is_narrow and scale[QCOM_SCALE] * _BYTE < _LEAST_PROBABLE)
    if bounds_of(node) and node.meta[QCOM_QUANT_ATTRS][QCOM_QUANT_MAX] > _BYTE:
        return _bounds_within(node)
    if packet == "mul" and node.meta[QCOM_QUANT_ATTRS][QCOM_QUANT_MAX] > _BYTE:
        is_curved = any(operators.packet(given) == "tanh" for given in node.all_input_nodes)
        return is_curved or _gates_norm(node)
    if packet == "_native_batch_norm_legit_no_training":
        # Of rows it takes the features for channels.
        return bool(node.args[0].meta["val"].dim() != _PICTURE)
    return packet == "cumsum"


def scales_rows(node: Node) -> bool:
    """Tells whether rows are multiplied by a number that were picked by a part's 32-bit input.

    Of several rows of places, QNN picks those of the first one only, and zeros.
    """
    if operators.packet(node) != "mul":
        return False
    rows, number = node.args[:2]
    for picked, factor in ((rows, number), (number, rows)):
        place = _PLACES.get(operators.packet(picked)) if isinstance(picked, Node) else None
        if place is None or any(value.numel() > 1 for value in operators.values(factor)):
            continue
        places = picked.args[place]
        for each in places if isinstance(places, list | tuple) else (places,):
            # What is cast for this call alone is cast in its part.
            is_own = each is not None and is_cast(each) and len(each.users) == 1
            if each is not None and not is_own and each.meta["val"].dim() > 1:
                return True
    return False


# Operator to the argument that has its places.
_PLACES = {"embedding": 1, "index": 1}
_BYTE = 255
# Steps of 1/256 leave 20 dB or so of probabilities up to this one.
_LEAST_PROBABLE = 1 / 16


def is_cast(node: Node) -> bool:
    """Tells whether a call changes a type, or the order of a tensor in memory."""
    return operators.packet(node) in {"_to_copy", "_to_dim_order_copy", "to"}


def becomes_whole(node: Node) -> bool:
    """Tells whether a cast makes whole numbers or booleans of fractions, which QNN rounds."""
    given, result = node.all_input_nodes[0].meta["val"], node.meta["val"]
    return bool(given.dtype.is_floating_point and not result.dtype.is_floating_point)


def is_other_order(node: Node) -> bool:
    """Tells whether a copy changes the order of a tensor in memory, which QNN does not do."""
    if "dim_order" not in operators.packet(node) or not node.all_input_nodes:
        return False
    given, result = node.all_input_nodes[0].meta["val"], node.meta["val"]
    return bool(given.dim_order() != result.dim_order())


def is_of_an_edge(node: Node) -> bool:
    """Tells whether what is bounded is given to a function that ends where the bounds do.

    What QNN gives back may be a last digit beyond them.
    """
    return any(operators.packet(user) in ("acos", "acosh", "atanh") for user in node.users)


def bounds_of(node: Node) -> tuple[float | None, float | None] | None:
    """The bounds of a `clamp` or `hardtanh`, each a number or None; None: it is another call."""
    names, defaults = _BOUNDS.get(operators.packet(node), ((), ()))
    given = (*node.args[1:], *[None] * len(names))
    bounds = [
        node.kwargs.get(name, default) if value is None else value
        for name, default, value in zip(names, defaults, given, strict=False)
    ]
    return (bounds[0], bounds[1]) if bounds else None


def for_qnn(label: str) -> Callable[..., Any]:
    """A pass for QNN's recipes that has tensors in rows, and refuses what no pass can mend.

    Args:
      label: of the recipe, for messages.
    """

    def apply(method: str, program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
        names = set(program.graph_signature.user_inputs)
        rows = torch.contiguous_format
        for node in list(program.graph.nodes):
            is_row = operators.packet(node) in _OF_ROWS
            if is_row and (_has_other_kernel(node) or node.args[1].name in names):
                _as_picture(program, node)
            wrong = _is_given_otherwise(node, names) or _is_unknown(node) or _has_odd_places(node)
            if wrong:
                raise BuildError(f'{label}: the method "{method}"{wrong[0]}', wrong[1])
            if torch.channels_last in (*node.args, *node.kwargs.values()):
                args = [rows if each is torch.channels_last else each for each in node.args]
                named = {k: rows if v is torch.channels_last else v for k, v in node.kwargs.items()}
                node.args, node.kwargs = tuple(args), named
        program.graph_module.recompile()
        return program

    return apply


def _is_given_otherwise(node: Node, names: set[str]) -> tuple[str, str] | None:
    value = node.meta.get("val")
    if node.op != "placeholder" or node.name not in names or not isinstance(value, torch.Tensor):
        return None
    if value.is_contiguous():
        return None
    order = [int(dim) for dim in value.dim_order()]
    return (
        f', input "{node.name}": got dimensions that lie in memory as {order}, expected '
        f"{sorted(order)}, the order in which QNN reads them.",
        "Give the method contiguous example inputs: x.contiguous().",
    )


def _has_odd_places(node: Node) -> tuple[str, str] | None:
    name = operators.name(node)
    if not operators.packet(node).startswith("max_pool") or not _pads(node):
        return None
    where = f" calls {name}{operators.place_of(node)} with the padding {list(node.args[3])}"
    if "with_indices" in name and _has_places(node):
        return (
            f"{where}, and upstream's lowering for QNN counts the indices with the padding.",
            "Pad with -inf before (torch.nn.functional.pad), or leave return_indices out.",
        )
    if len(node.args) > 5 and node.args[5]:
        return (
            f"{where} and ceil_mode, which upstream's lowering for QNN gives another size.",
            "Pad with -inf before (torch.nn.functional.pad), and leave ceil_mode out.",
        )
    return None


def _is_unknown(node: Node) -> tuple[str, str] | None:
    """The sentence about a node that neither QNN nor ExecuTorch has a kernel for."""
    name = operators.name(node)
    instead = _UNKNOWN.get(operators.packet(node))
    if not instead:
        return None
    where = f" calls {name}{operators.place_of(node)} with {operators.inputs_of(node)}"
    return (f"{where}, for which neither QNN nor ExecuTorch has a kernel.", f"{instead}.")


_BAGS = "Use torch.nn.functional.embedding, and reduce what it gives: .sum(1), .mean(1) or .amax(1)"
_UNKNOWN = {
    **dict.fromkeys(("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"), _BAGS),
    "fractional_max_pool2d": "Use torch.nn.functional.adaptive_max_pool2d or max_pool2d",
    "fractional_max_pool3d": "Use torch.nn.functional.max_pool3d",
}
_PICTURE = 4
_VOLUME = 3
_OF_ROWS = ("conv1d", "conv_transpose1d")
_BYTES = (torch.int8, torch.int16, torch.uint8)
# They have four dimensions at most.
_FLAT = (torch.bool, torch.int64)


def _never(node: Node) -> bool:
    return False


def _always(node: Node) -> bool:
    return True


def _sizes(value: Any, rank: int) -> tuple[Any, ...]:
    return tuple(value.meta["val"].shape[-rank:])


def _is_no_multiple(node: Node) -> bool:
    """Tells whether a picture is resized to other sizes than multiples of its own."""
    pairs = zip(_sizes(node, 2), _sizes(node.args[0], 2), strict=True)
    return any(after % before for after, before in pairs)


def _is_unaligned(node: Node) -> bool:
    is_aligned = node.args[2] if len(node.args) > 2 else node.kwargs.get("align_corners")
    return not is_aligned and _is_no_multiple(node)


def _paddings(node: Node) -> list[int]:
    padding = node.args[3] if len(node.args) > 3 else 0
    return [*padding] if isinstance(padding, list | tuple) else [padding]


def _pads(node: Node) -> bool:
    return any(_paddings(node))


def _convolves_otherwise(node: Node) -> bool:
    padding = _argument_of_layer(node, 4, "padding", 0)
    if operators.packet(node) == "convolution" and node.args[6]:
        return _transposes_otherwise(node) or _has_other_kernel(node)
    return _multiplies_channels(node) or _is_outside(node, padding) or _has_other_kernel(node)


def _has_other_kernel(node: Node) -> bool:
    """Tells whether upstream rearranges a kernel that is computed, as by a weight norm.

    Of rows, and where a transposed one is dilated, it takes what the kernel is computed of.
    """
    kernel = node.args[1]
    if "dequantize" in operators.name(kernel):  # type: ignore[arg-type]
        kernel = kernel.args[0]  # type: ignore[union-attr]
    if kernel.op != "call_function":  # type: ignore[union-attr]
        return False
    is_transposed = len(node.args) > 6 and node.args[6] is True
    dilation = _argument_of_layer(node, 5, "dilation", 1)
    steps = dilation if isinstance(dilation, list | tuple) else [dilation]
    return _is_row(node) or (is_transposed and max(steps) > 1)


def _as_picture(program: torch.export.ExportedProgram, node: Node) -> None:
    """Writes a convolution of rows by a kernel that is computed as one of pictures.

    Upstream's pass does so with all, and takes what the kernel is computed of for it.
    """
    aten = torch.ops.aten

    def call(op: Any, *args: Any) -> Node:
        made = program.graph.call_function(op, args)
        values = [each.meta["val"] if isinstance(each, Node) else each for each in args]
        made.meta = {**node.meta, "val": op(*values)}
        return made

    # Strides, paddings and groups, the fourth, of another dimension, and their defaults.
    if node.target is aten.conv1d.default:
        op, numbers = aten.conv2d.default, (1, 0, 1, 1)
    elif node.target is aten.conv_transpose1d.default:
        op, numbers = aten.conv_transpose2d.input, (1, 0, 0, 1, 1)
    else:
        return
    given: list[Any] = [*node.args[3:], *numbers[len(node.args[3:]) :]]
    groups = given[3]
    wide = [
        [n, *(g if isinstance(g, list | tuple) else [g])]
        for n, g in zip(numbers, given, strict=True)
    ]
    wide[3] = groups
    bias = node.args[2] if len(node.args) > 2 else None
    with program.graph.inserting_before(node):
        x, kernel = (call(aten.unsqueeze.default, each, 2) for each in node.args[:2])
        picture = call(op, x, kernel, bias, *wide)
    node.target, node.args, node.kwargs = aten.squeeze.dim, (picture, 2), {}


def _argument_of_layer(node: Node, place: int, name: str, default: int) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def _is_outside(node: Node, padding: Any) -> bool:
    """Tells whether a convolution has windows that lie in a padding as a whole."""
    sizes = node.args[1].meta["val"].shape[2:]  # type: ignore[union-attr]
    dilation = _argument_of_layer(node, 5, "dilation", 1)
    if isinstance(padding, str):
        return False
    pads, steps = (
        [each] * len(sizes) if isinstance(each, int) else [*each] * (len(sizes) // len(each))
        for each in (padding, dilation)
    )
    windows = [step * (size - 1) + 1 for step, size in zip(steps, sizes, strict=True)]
    return any(pad >= window for pad, window in zip(pads, windows, strict=False))


def _multiplies_channels(node: Node) -> bool:
    """Tells whether a convolution with steps, or a dilated one, makes several channels of each."""
    weight = node.args[1].meta["val"]  # type: ignore[union-attr]
    given = [_argument_of_layer(node, 3, "stride", 1), _argument_of_layer(node, 5, "dilation", 1)]
    steps = [n for each in given for n in (each if isinstance(each, list | tuple) else [each])]
    groups = node.args[-1] if isinstance(node.args[-1], int) else 1
    return bool(weight.shape[1] == 1 and weight.shape[0] > groups > 1 and max(steps, default=1) > 1)


def _transposes_otherwise(node: Node) -> bool:
    """Tells whether a transposed convolution is of volumes in groups, or goes beyond its windows.

    QNN mixes such groups, and leaves the bias out of what lies behind the last window.
    """
    is_general = operators.packet(node) == "convolution"
    if is_general and not node.args[6]:
        return False
    extra = _argument_of_layer(node, 7 if is_general else 5, "output_padding", 0)
    padding = _argument_of_layer(node, 4, "padding", 0)
    groups = _argument_of_layer(node, 8 if is_general else 6, "groups", 1)
    rank = node.args[1].meta["val"].dim() - 2  # type: ignore[union-attr]
    pads, extras = (
        [each] * rank if isinstance(each, int) else [*each] * (rank // len(each))
        for each in (padding, extra)
    )
    is_beyond = any(more > pad for more, pad in zip(extras, pads, strict=True))
    return is_beyond or (rank == _VOLUME and groups > 1)


def _has_slopes_elsewhere(node: Node) -> bool:
    """Tells whether channels have slopes of their own, but for those of a layer of pictures.

    Only such a layer gives pictures whose channels lie last, as QNN's slopes do.
    """
    x, slopes = (each.meta["val"] for each in node.args[:2])  # type: ignore[union-attr]
    layer = operators.name(node.args[0])  # type: ignore[arg-type]
    return slopes.numel() > 1 and (x.dim() != _PICTURE or ".conv" not in layer)


def _has_odd_divisor(node: Node) -> bool:
    """Tells whether averages are over windows that are cut off, or padded and even or uncounted.

    Nor are they right where the paddings differ, as those of rows.
    """
    if len(node.args) > 4 and node.args[4]:
        return True
    counts = node.args[5] if len(node.args) > 5 else True
    sizes = [node.args[1]] if isinstance(node.args[1], int) else node.args[1]
    if len(node.args) > 6 and node.args[6]:
        return True
    is_odd = all(size % 2 for size in sizes) and len({*_paddings(node)}) == 1
    return _pads(node) and not (counts and is_odd)


def _is_odd_maximum(node: Node) -> bool:
    """Tells whether maxima are over padded windows that are cut off, or whether places are read."""
    is_cut = _pads(node) and len(node.args) > 5 and bool(node.args[5])
    return is_cut or _has_places(node)


def _has_places(node: Node) -> bool:
    return any(
        user.target is operator.getitem and user.args[1] == 1 and user.users for user in node.users
    )


def _normalizes_otherwise(node: Node) -> bool:
    return len(node.args[1]) > 1 or _has_more(node)  # type: ignore[arg-type]


def _has_more(node: Node) -> bool:
    """Tells whether anything but a normalization's first result is read."""
    return any(
        user.target is operator.getitem and user.args[1] and user.users for user in node.users
    )


def _is_fused_otherwise(node: Node) -> bool:
    """Tells whether a padding becomes a part of maxima, which leave it out, or of an odd layer.

    Nor does QNN compare right with infinities.
    """
    if any(isinstance(each, float) and math.isinf(each) for each in node.args):
        return True
    amounts = [*node.args[1][::2]][::-1]
    for user in node.users:
        name = operators.name(user)
        if "max_pool" in name or (".conv" in name and _is_outside(user, amounts)):
            return True
    return False


def _gates_norm(node: Node) -> bool:
    """Tells whether a product is the SiLU of a layer behind a norm, which QNN fuses in 16 bits."""
    source = _activated(node)
    while isinstance(source, Node) and source.op == "call_function":
        packet = operators.packet(source)
        if packet.endswith("layer_norm") or packet == "rms_norm":
            return True
        is_view = packet.removesuffix("_copy") in {*_VIEWS, "permute"}
        if not is_view and packet != "linear" and source.target is not operator.getitem:
            return False
        source = source.args[0]
    return False


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


def _has_computed_index(node: Node) -> bool:
    return bool(node.args[2].op == "call_function")  # type: ignore[union-attr]


def _is_number(node: Node) -> bool:
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and value.dim() == 0


def _puts_oddly(node: Node) -> bool:
    """Tells whether values are added, or put at places that are not of the first dimension."""
    return (len(node.args) > 3 and bool(node.args[3])) or None in node.args[1]


def _is_row(node: Node) -> bool:
    value = node.args[0].meta["val"]  # type: ignore[union-attr]
    return isinstance(value, torch.Tensor) and value.dim() == 3


def _is_no_picture(node: Node) -> bool:
    value = node.args[0].meta["val"]  # type: ignore[union-attr]
    return isinstance(value, torch.Tensor) and value.dim() != _PICTURE


def _is_whole(node: Node) -> bool:
    """Tells whether whole numbers come out of an operator that QNN computes in floats."""
    return any(map(operators.is_whole, operators.values(node)[:1]))


def _is_index(node: Node) -> bool:
    """Tells whether all that is read of whole numbers are places in a tensor."""
    for user in node.users:
        packet = operators.packet(user).removesuffix("_copy")
        if packet in _MOVES | _VIEWS or user.target is operator.getitem:
            if not _is_index(user):
                return False
        elif packet not in _PICKS or user.args[0] is node:
            return False
    return True


def _has_exponents(node: Node) -> bool:
    """Tells whether the exponent of a power is a tensor with several numbers."""
    return any(value.numel() > 1 for value in operators.values(node.args[1]))


def _joins_activations(node: Node) -> bool:
    """Tells whether two activations of one value meet in an operator: QNN's compiler ends on it."""
    joined = node.args[0] if isinstance(node.args[0], list | tuple) else node.args[:2]
    sources = [source for source in map(_activated, joined) if source is not None]
    return len(set(sources)) < len(sources)


def _activated(node: Any) -> Node | None:
    """Returns what an activation is a function of; None: the node is no activation."""
    packet = operators.packet(node) if isinstance(node, Node) else ""
    if packet.removesuffix("_copy") in _VIEWS:
        return _activated(node.args[0])
    if packet in _ACTIVATIONS:
        return node.args[0]  # type: ignore[no-any-return]
    if packet != "mul":
        return None
    # SiLU, after upstream wrote it as a product.
    given = [each for each in node.args[:2] if isinstance(each, Node)]
    gates = [each for each in given if operators.packet(each) == "sigmoid"]
    return next((each.args[0] for each in gates if each.args[0] in given), None)


def _is_with_itself(node: Node) -> bool:
    """Tells whether a tensor is compared with itself, which asks for NaN."""
    return len(node.args) > 1 and node.args[0] is node.args[1]


_BOUNDS: Mapping[str, tuple[tuple[str, str], tuple[float | None, float | None]]] = {
    "clamp": (("min", "max"), (None, None)),
    "hardtanh": (("min_val", "max_val"), (-1.0, 1.0)),
}
# They move elements, some of them through floats, which hold 24 bits.
_MOVES = frozenset(
    {
        *("cat", "channel_shuffle", "constant_pad_nd", "expand", "flip", "gather", "index"),
        *("index_select", "pad", "permute", "pixel_shuffle", "pixel_unshuffle", "repeat", "roll"),
        *("select", "slice", "split", "split_with_sizes", "stack", "transpose", "unbind"),
    }
)
_ACTIVATIONS = frozenset(
    {
        *("clamp", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "prelu"),
        *("_prelu_kernel", "relu", "relu6", "silu"),
    }
)
_JOINING = frozenset(("add", "cat", "div", "maximum", "minimum", "mul", "stack", "sub"))
_VIEWS = frozenset(("_to", "_to_dim_order", "reshape", "squeeze", "unsqueeze", "view"))
_PICKS = frozenset(("embedding", "gather", "index", "index_put", "index_select", "scatter"))
_CHECKS: Mapping[str, Callable[[Node], bool]] = {
    # Fractions below 0.5 count as zeros, and a single result gets a dimension.
    **dict.fromkeys(("all", "any"), _always),
    **dict.fromkeys(("_prelu_kernel", "prelu"), _has_slopes_elsewhere),
    **dict.fromkeys(_OF_ROWS, _has_other_kernel),
    **dict.fromkeys(("conv2d", "convolution"), _convolves_otherwise),
    **dict.fromkeys(
        ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _transposes_otherwise
    ),
    **dict.fromkeys(("avg_pool2d", "avg_pool3d"), _has_odd_divisor),
    **dict.fromkeys(("group_norm", "native_group_norm"), _is_no_picture),
    **dict.fromkeys(("constant_pad_nd", "pad"), _is_fused_otherwise),
    **dict.fromkeys(("clamp", "hardtanh", "relu6"), is_of_an_edge),
    **dict.fromkeys(("eq", "ne"), _is_with_itself),
    # Quotients are rounded down that are just below a whole number.
    **dict.fromkeys(("floor_divide", "fmod", "remainder"), _always),
    # They are right for 24 bits only, and products end at 32.
    **dict.fromkeys(("amax", "amin", "cumsum", "mul", "sort", "sum", "topk"), _is_whole),
    "index_put": _puts_oddly,
    "index_select": _has_computed_index,
    # It takes NaN for a number.
    **dict.fromkeys(("isinf", "isnan"), _always),
    "instance_norm": _is_row,
    # Places of maxima end the simulator.
    **dict.fromkeys(("max", "min"), _has_more),
    # It adds exponentials that 16 bits do not hold.
    **dict.fromkeys(("_log_softmax", "log_softmax"), _always),
    **dict.fromkeys(("max_pool2d", "max_pool2d_with_indices"), _is_odd_maximum),
    **dict.fromkeys(("adaptive_max_pool3d", "max_pool3d", "max_pool3d_with_indices"), _always),
    **dict.fromkeys(("layer_norm", "native_layer_norm"), _normalizes_otherwise),
    "_native_batch_norm_legit": _always,
    # The square of -1e-6 is -4.
    "pow": _has_exponents,
    **dict.fromkeys(("select", "select_copy"), _is_number),
    "upsample_bicubic2d": operators.has_other_factors,
    "upsample_bilinear2d": _is_unaligned,
    "upsample_nearest2d": _is_no_multiple,
}
