"""Calls that QNN's recipes refuse before a lowering, or write in a way that QNN's passes take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from etbuild import BuildError
from etbuild.graph_calls import call
from etlower import operators
from qualcomm_convolutions import OF_ROWS, has_other_kernel
from qualcomm_differences import has_places, pads
from torch.fx import Node

_BAGS = "Use torch.nn.functional.embedding, and reduce what it gives: .sum(1), .mean(1) or .amax(1)"
_UNKNOWN = {
    **dict.fromkeys(("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"), _BAGS),
    "fractional_max_pool2d": "Use torch.nn.functional.adaptive_max_pool2d or max_pool2d",
    "fractional_max_pool3d": "Use torch.nn.functional.max_pool3d",
}


def for_qnn(label: str) -> Callable[..., Any]:
    """A pass for QNN's recipes that has tensors in rows, and refuses what no pass can mend.

    Args:
      label: of the recipe, for messages.
    """

    def apply(method: str, program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
        names = set(program.graph_signature.user_inputs)
        rows = torch.contiguous_format
        for node in list(program.graph.nodes):
            is_row = operators.packet(node) in OF_ROWS
            if is_row and (has_other_kernel(node) or node.args[1].name in names):
                _as_picture(program, node)
            wrong = _is_given_otherwise(node, names) or _dilates_given(node, names)
            wrong = wrong or _is_unknown(node) or _has_odd_places(node)
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
    if not operators.packet(node).startswith("max_pool") or not pads(node):
        return None
    where = f" calls {name}{operators.place_of(node)} with the padding {list(node.args[3])}"
    if "with_indices" in name and has_places(node):
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


def _dilates_given(node: Node, names: set[str]) -> tuple[str, str] | None:
    """The sentence about a dilated transposed convolution whose kernel follows from an input."""
    if operators.packet(node) not in ("conv_transpose2d", "conv_transpose3d"):
        return None
    dilation = node.args[7] if len(node.args) > 7 else 1
    source = node.args[1]
    while isinstance(source, Node) and source.op == "call_function" and source.args:
        source = source.args[0]
    is_given = isinstance(source, Node) and source.name in names
    if not is_given or {1} >= {*(dilation if isinstance(dilation, list | tuple) else [dilation])}:
        return None
    return (
        f" calls {operators.name(node)}{operators.place_of(node)} with the dilation {dilation} and "
        "weights that follow from an input, and upstream's lowering for QNN dilates stored ones.",
        "Store the weights, or have zeros between them and no dilation.",
    )


def _is_unknown(node: Node) -> tuple[str, str] | None:
    """The sentence about a node that neither QNN nor ExecuTorch has a kernel for."""
    name = operators.name(node)
    instead = _UNKNOWN.get(operators.packet(node))
    if not instead:
        return None
    where = f" calls {name}{operators.place_of(node)} with {operators.inputs_of(node)}"
    return (f"{where}, for which neither QNN nor ExecuTorch has a kernel.", f"{instead}.")


def _as_picture(program: torch.export.ExportedProgram, node: Node) -> None:
    """Writes a convolution of rows by a kernel that is computed as one of pictures.

    Upstream's pass does so with all, and takes what the kernel is computed of for it.
    """
    aten = torch.ops.aten

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
        x, kernel = (call(node, aten.unsqueeze.default, each, -2) for each in node.args[:2])
        picture = call(node, op, x, kernel, bias, *wide)
    node.target, node.args, node.kwargs = aten.squeeze.dim, (picture, -2), {}
