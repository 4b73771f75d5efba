"""Operators of which QNN's compiler (2.5.0 of its package) makes something else.

Each was run on its simulator beside eager mode, with parameters around those that differ. What is
found here is left to ExecuTorch's own kernels.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from etlower import operators
from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS
from qualcomm_convolutions import (
    convolves_otherwise,
    is_outside,
    is_row,
    reads_kernel,
    transposes_otherwise,
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
    is_wide = any(each.dim() > _PICTURE for each in operators.values(node))
    if is_wide and (packet in _PICKING or any(differs(node) for differs in _OF_MANY)):
        return True
    # QNN takes bytes for fractions.
    if "quantize" not in operators.name(node) and any(tensor.dtype in _BYTES for tensor in tensors):
        return True
    # They end the simulator, or come back as 32 bits.
    if operators.is_empty(node) or any(tensor.dtype == torch.float64 for tensor in tensors):
        return True
    if packet.removesuffix("_copy") in _MOVES and _is_whole(node) and not _is_index(node):
        return True
    if packet in _JOINING and _joins_activations(node) or reads_kernel(node):
        return True
    return _CHECKS.get(packet, _never)(node)


def _multiplies_both_ways(node: Node) -> bool:
    """Tells whether each of two tensors with scales is repeated to multiply them.

    Where both are views of tensors of four dimensions, QNN's compiler takes other numbers.
    """
    if operators.packet(node) != "mul" or QCOM_QUANT_ATTRS not in node.meta:
        return False
    sizes = operators.values(node)[0].numel()
    return all(value.numel() < sizes for value in operators.inputs(node))


def _repeats_to_compute(node: Node) -> bool:
    """Tells whether a function of single elements reads what is repeated, and another tensor.

    QNN's compiler takes the elements of one for those of the other.
    """
    if operators.packet(node).removesuffix("_copy") not in ("expand", "repeat"):
        return False
    return any(
        len(operators.inputs(user)) > 1
        and any(each.shape == node.meta["val"].shape for each in operators.values(user))
        for user in node.users
    )


def _spreads_rows(node: Node) -> bool:
    """Tells whether a view only spreads the rows of a linear layer's result.

    QNN's compiler takes the layer for one of as many dimensions, which gives other numbers with
    scales, or ends the simulator. It does not with rows of several matrices.
    """
    layer = node
    while operators.packet(layer).removesuffix("_copy") in VIEWS:
        layer = layer.args[0]
    if layer is node or operators.packet(layer) not in ("linear", "mm"):
        return False
    rows, spread = layer.meta["val"].shape, node.meta["val"].shape
    is_of_several = len(rows) == _PICTURE - 1 and rows[0] > 1
    return bool(rows[-1] == spread[-1]) and not is_of_several


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


# Of results of more than four dimensions.
_OF_MANY = (_multiplies_both_ways, _repeats_to_compute, _spreads_rows)
# Operator to the argument that has its places.
_PLACES = {"embedding": 1, "index": 1}
# Their results have four dimensions at most.
_PICKING = frozenset(("embedding", "index", "index_put"))


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
    """The bounds of a `clamp` or `hardtanh`, each a number or None; None: it is another call.

    So it is where tensors are the bounds.
    """
    names, defaults = _BOUNDS.get(operators.packet(node), ((), ()))
    given = (*node.args[1:], *[None] * len(names))
    bounds = [
        node.kwargs.get(name, default) if value is None else value
        for name, default, value in zip(names, defaults, given, strict=False)
    ]
    if not bounds or any(isinstance(bound, Node) for bound in bounds):
        return None
    return bounds[0], bounds[1]


_PICTURE = 4
# Numbers of a constant that the compiler reads at once, on behind its end as well.
READ_AT_ONCE = 32
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


def pads(node: Node) -> bool:
    return any(_paddings(node))


def _multiplies_batches(node: Node) -> bool:
    """Tells whether a product is of matrices in other batches, one of several dimensions."""
    x, y = (each.meta["val"] for each in node.args[:2])  # type: ignore[union-attr]
    return max(x.dim(), y.dim()) > _PICTURE and x.shape[:-2] != y.shape[:-2]


def reads_behind(node: Node) -> bool:
    """Tells whether floats get slopes behind which QNN's compiler reads on, into the payload."""
    if operators.packet(node) not in ("_prelu_kernel", "prelu"):
        return False
    slopes = node.args[1].meta["val"].numel()  # type: ignore[union-attr]
    return bool(slopes > 1 and slopes % READ_AT_ONCE)


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
    return pads(node) and not (counts and is_odd)


def _cuts_off(node: Node) -> bool:
    """Tells whether padding takes something away: the simulator fails in the first call."""
    return any(amount < 0 for amount in node.args[1])  # type: ignore[union-attr]


def _has_uneven_windows(node: Node) -> bool:
    """Tells whether windows follow from sizes, and differ from those of one size and step.

    Or whether places in them are read.
    """
    if has_places(node):
        return True
    given, results = (value.shape[-2:] for value in operators.values([node.args[0], node])[:2])
    for size, count in zip(given, results, strict=True):
        step = size // count
        window = size - (count - 1) * step
        for place in range(count):
            first, end = place * size // count, -(-(place + 1) * size // count)
            if (first, end) != (place * step, place * step + window):
                return True
    return False


def _is_odd_maximum(node: Node) -> bool:
    """Tells whether maxima are over padded windows that are cut off, or whether places are read."""
    is_cut = pads(node) and len(node.args) > 5 and bool(node.args[5])
    return is_cut or has_places(node)


def has_places(node: Node) -> bool:
    """Tells whether the places of maxima, an operator's second result, are read."""
    return 1 in operators.read_results(node)


def _normalizes_otherwise(node: Node) -> bool:
    return len(node.args[1]) > 1 or has_more(node)  # type: ignore[arg-type]


def has_more(node: Node) -> bool:
    """Tells whether anything but a normalization's first result is read."""
    return bool(operators.read_results(node) - {0})


def _is_fused_otherwise(node: Node) -> bool:
    """Tells whether a padding becomes a part of maxima, which leave it out, or of an odd layer.

    Layers of channels take another number than zero for zero.
    """
    if any(node.args[2:3]):
        return True
    amounts = [*node.args[1][::2]][::-1]
    for user in node.users:
        name = operators.name(user)
        if "max_pool" in name or (".conv" in name and is_outside(user, amounts)):
            return True
    return False


def _has_computed_index(node: Node) -> bool:
    return bool(node.args[2].op == "call_function")  # type: ignore[union-attr]


def _is_number(node: Node) -> bool:
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and value.dim() == 0


def _puts_oddly(node: Node) -> bool:
    """Tells whether values are added, or put at places that are not of the first dimension.

    Or into a tensor that others read: upstream's builder writes the result's scale on it, even
    where the operator is refused then.
    """
    is_read = QCOM_QUANT_ATTRS in node.meta and len(node.args[0].users) > 1
    return is_read or operators.adds_by_place(node) or None in node.args[1]


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
        if packet in _MOVES | VIEWS or user.target is operator.getitem:
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
    sources = [source for source in map(activated, joined) if source is not None]
    return len(set(sources)) < len(sources)


def activated(node: Any) -> Node | None:
    """Returns what an activation is a function of; None: the node is no activation."""
    packet = operators.packet(node) if isinstance(node, Node) else ""
    if packet.removesuffix("_copy") in VIEWS:
        return activated(node.args[0])
    if packet in ACTIVATIONS:
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
ACTIVATIONS = frozenset(
    {
        *("clamp", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "prelu"),
        *("_prelu_kernel", "relu", "relu6", "silu"),
    }
)
_JOINING = frozenset(("add", "cat", "div", "maximum", "minimum", "mul", "stack", "sub"))
VIEWS = frozenset(("_to", "_to_dim_order", "reshape", "squeeze", "unsqueeze", "view"))
_PICKS = frozenset(("embedding", "gather", "index", "index_put", "index_select", "scatter"))
_CHECKS: Mapping[str, Callable[[Node], bool]] = {
    # Fractions below 0.5 count as zeros, and a single result gets a dimension.
    **dict.fromkeys(("all", "any"), _always),
    **dict.fromkeys(("_prelu_kernel", "prelu"), _has_slopes_elsewhere),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), convolves_otherwise),
    **dict.fromkeys(
        ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), transposes_otherwise
    ),
    "adaptive_max_pool2d": _has_uneven_windows,
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
    "instance_norm": is_row,
    # Its compiler or its simulator ends.
    "matmul": _multiplies_batches,
    # Places of maxima end the simulator.
    **dict.fromkeys(("max", "min"), has_more),
    # It adds exponentials that 16 bits do not hold.
    **dict.fromkeys(("_log_softmax", "log_softmax"), _always),
    **dict.fromkeys(("max_pool2d", "max_pool2d_with_indices"), _is_odd_maximum),
    **dict.fromkeys(("adaptive_max_pool3d", "max_pool3d", "max_pool3d_with_indices"), _always),
    **dict.fromkeys(("layer_norm", "native_layer_norm"), _normalizes_otherwise),
    **dict.fromkeys(("reflection_pad1d", "reflection_pad2d", "reflection_pad3d"), _cuts_off),
    "_native_batch_norm_legit": _always,
    # The square of -1e-6 is -4.
    "pow": _has_exponents,
    **dict.fromkeys(("select", "select_copy"), _is_number),
    "upsample_bicubic2d": operators.has_other_factors,
    "upsample_bilinear2d": _is_unaligned,
    "upsample_nearest2d": _is_no_multiple,
}
