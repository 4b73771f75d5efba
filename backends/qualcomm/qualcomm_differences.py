"""Operators of floats of which QNN's compiler (2.5.0 of its package) makes something else.

Each was run on its simulator beside eager mode, with parameters around those that differ. What is
found here is left to ExecuTorch's own kernels.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from etbuild import BuildError
from etlower import operators
from torch.fx import Node


def is_computed_otherwise(node: Node, name: str) -> bool:
    """Tells whether QNN computes something else than an operator says.

    Args:
      node: a call of a program in ATen's or the edge dialect.
      name: the operator: "aten.any.dim".
    """
    packet = name.removeprefix("aten.").partition(".")[0]
    return _CHECKS.get(packet, _never)(node)


def becomes_whole(node: Node) -> bool:
    """Tells whether a cast makes whole numbers or booleans of fractions, which QNN rounds."""
    given, result = node.all_input_nodes[0].meta["val"], node.meta["val"]
    return bool(given.dtype.is_floating_point and not result.dtype.is_floating_point)


def is_other_order(node: Node, name: str) -> bool:
    """Tells whether a copy changes the order of a tensor in memory, which QNN does not do."""
    if "dim_order" not in name or not node.all_input_nodes:
        return False
    given, result = node.all_input_nodes[0].meta["val"], node.meta["val"]
    return bool(given.dim_order() != result.dim_order())


def for_qnn(label: str) -> Callable[..., Any]:
    """A pass for QNN's recipes that has tensors in rows, and refuses what no pass can mend.

    Args:
      label: of the recipe, for messages.
    """

    def apply(method: str, program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
        names = set(program.graph_signature.user_inputs)
        rows = torch.contiguous_format
        for node in program.graph.nodes:
            wrong = _is_given_otherwise(node, names) or _has_odd_places(node)
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
    if "max_pool" not in name or not _pads(node):
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


_PICTURE = 4


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


def _multiplies_channels(node: Node) -> bool:
    """Tells whether a dilated convolution makes several channels of each."""
    weight = node.args[1].meta["val"]  # type: ignore[union-attr]
    dilation = node.args[5] if len(node.args) > 5 else 1
    steps = dilation if isinstance(dilation, list | tuple) else [dilation]
    groups = node.args[-1] if isinstance(node.args[-1], int) else 1
    return bool(weight.shape[1] == 1 and weight.shape[0] > groups > 1 and max(steps, default=1) > 1)


def _has_slopes_of_rows(node: Node) -> bool:
    """Tells whether each channel of what is no picture has a slope of its own."""
    x, slopes = (each.meta["val"] for each in node.args[:2])  # type: ignore[union-attr]
    return slopes.numel() > 1 and x.dim() != _PICTURE


def _has_odd_divisor(node: Node) -> bool:
    """Tells whether averages are over windows that are cut off, or padded and even or uncounted.

    Nor are they right where the paddings differ, as those of rows.
    """
    if len(node.args) > 4 and node.args[4]:
        return True
    counts = node.args[5] if len(node.args) > 5 else True
    sizes = [node.args[1]] if isinstance(node.args[1], int) else node.args[1]
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


def _puts_oddly(node: Node) -> bool:
    """Tells whether values are added, or put at places that are not of the first dimension."""
    return (len(node.args) > 3 and bool(node.args[3])) or None in node.args[1]


def _is_row(node: Node) -> bool:
    value = node.args[0].meta["val"]  # type: ignore[union-attr]
    return isinstance(value, torch.Tensor) and value.dim() == 3


def _is_flat(node: Node) -> bool:
    value = node.args[0].meta["val"]  # type: ignore[union-attr]
    return isinstance(value, torch.Tensor) and value.dim() == 2


_CHECKS: Mapping[str, Callable[[Node], bool]] = {
    # Fractions below 0.5 count as zeros, and a single result gets a dimension.
    **dict.fromkeys(("all", "any"), _always),
    **dict.fromkeys(("_prelu_kernel", "prelu"), _has_slopes_of_rows),
    **dict.fromkeys(("conv2d", "convolution"), _multiplies_channels),
    "avg_pool2d": _has_odd_divisor,
    **dict.fromkeys(("group_norm", "native_group_norm"), _is_flat),
    "index_put": _puts_oddly,
    "instance_norm": _is_row,
    "max_pool2d": _is_odd_maximum,
    "max_pool2d_with_indices": _is_odd_maximum,
    "_native_batch_norm_legit": _always,
    "upsample_bilinear2d": _is_unaligned,
    "upsample_nearest2d": _is_no_multiple,
}
