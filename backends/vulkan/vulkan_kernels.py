"""Calls that Vulkan's runtime (ExecuTorch 1.3.1) refuses by ending the process, or computes wrong.

Upstream's partitioner looks at types and storage of most operators, not at such arguments. Each
check was seen to be needed in a program of that one call. What it leaves out, ExecuTorch's own
kernels compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node

# Depthwise convolutions have shaders of their own for these; that for others computes padding wrong
# and exists without strides only.
_DEPTHWISE = ((3, 3), (5, 5))


def refusal(node: Node) -> str:
    """Says why Vulkan must not get a call; empty: it may."""
    name = getattr(node.target, "__name__", "")
    values = [_value(each) for each in (node, *node.all_input_nodes)]
    # Conversions of numbers are part of what reads them.
    if values[0] is not None and values[0].dim() == 0 and "_copy.default" not in name:
        return "Vulkan's runtime ends the process on results without dimensions"
    if any(value.dim() > 4 and _is_dynamic(value) for value in values if value is not None):
        return "Vulkan's runtime ends the process on dynamic sizes of more than four dimensions"
    if _follows_from_nothing(node):
        return "it is a constant, which ExecuTorch computes as fast"
    return _CHECKS.get(name.rpartition(".")[0].removeprefix("aten."), _takes)(node)


def _value(node: Any) -> Any:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _is_dynamic(value: torch.Tensor) -> bool:
    return not all(isinstance(size, int) for size in value.shape)


def _follows_from_nothing(node: Node) -> bool:
    """Tells whether no input and no weight is behind a node: upstream's passes fail on it alone."""
    if node.op != "call_function":
        return False
    return all(_follows_from_nothing(given) for given in node.all_input_nodes)


def _takes(node: Node) -> str:
    return ""


def _convolution(node: Node) -> str:
    x, weight, *_ = node.args
    transposed, groups, dilation = node.args[6], node.args[8], node.args[5]
    shape = list(_value(weight).shape)
    if _value(x).dim() != 4:
        return ""
    if transposed and max(dilation) > 1:
        return "Vulkan's runtime ends the process on dilated transposed convolutions"
    if groups == 1:
        return ""
    if transposed or not groups == shape[0] == _value(x).shape[1]:
        return f"Vulkan computes convolutions in groups wrong: got {groups} groups"
    if tuple(shape[2:]) not in _DEPTHWISE:
        return f"Vulkan computes depthwise convolutions of {shape[2]} × {shape[3]} wrong"
    return ""


def _pool(node: Node) -> str:
    lists = [argument for argument in node.args[1:3] if isinstance(argument, list | tuple)]
    if len(node.args) > 2 and all(len(each) == 2 for each in lists):
        return ""
    return "Vulkan's runtime ends the process on pooling without strides"


def _index(node: Node) -> str:
    if len(node.args[1]) == 1 and _value(node.args[0]).dim() == 1:
        return ""
    return "Vulkan's runtime ends the process on more than one dimension or index"


def _normalization_of_batches(node: Node) -> str:
    if _value(node.args[0]).dim() == 4:
        return ""
    return "Vulkan's runtime ends the process on other inputs than those of four dimensions"


def _normalization_of_layers(node: Node) -> str:
    if len(node.args[1]) == 1:
        return ""
    return "Vulkan's runtime ends the process on layers of more than one dimension"


def _fractions(node: Node) -> str:
    whole = [v for v in map(_value, node.all_input_nodes) if v is not None and _is_whole(v)]
    return f"Vulkan lacks it for {whole[0].dtype}, or computes it wrong" if whole else ""


def _is_whole(value: torch.Tensor) -> bool:
    return not value.dtype.is_floating_point and value.dtype != torch.bool


def _copy(node: Node) -> str:
    return "Vulkan takes what is written to for what is copied"


def _weight(place: int) -> Callable[[Node], str]:
    def check(node: Node) -> str:
        weight = node.args[place]
        if isinstance(weight, Node) and not _is_stored(weight):
            return "Vulkan's runtime ends the process on weights that are computed"
        return ""

    return check


def _is_stored(node: Node) -> bool:
    """Tells whether a weight is one of the program's, dequantized or transposed at most."""
    while node.op == "call_function":
        name = getattr(node.target, "__name__", "")
        if not name.startswith(_OF_WEIGHTS):
            return False
        node = node.args[0]
    return node.op == "placeholder" and not node.meta.get(_IS_INPUT, False)


_OF_WEIGHTS = (
    "aten.permute_copy.",
    "aten.t_copy.",
    "aten.transpose_copy.",
    "quantized_decomposed.",
    "torchao.",
)
# Set by the partitioner, which knows the program's signature.
_IS_INPUT = "vulkan_input"


def mark_inputs(program: torch.export.ExportedProgram) -> None:
    """Notes at each placeholder whether it is an input of the method; others are stored."""
    inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.find_nodes(op="placeholder"):
        node.meta[_IS_INPUT] = node.name in inputs


_CHECKS: Mapping[str, Callable[[Node], str]] = {
    "_native_batch_norm_legit_no_training": _normalization_of_batches,
    "addmm": _weight(2),
    "avg_pool2d": _pool,
    "convolution": _convolution,
    "copy": _copy,
    "index": _index,
    "linear": _weight(1),
    "max_pool2d_with_indices": _pool,
    "mm": _weight(1),
    "native_layer_norm": _normalization_of_layers,
    **dict.fromkeys(("div", "eq", "floor_divide", "ge", "gt", "le", "lt", "ne"), _fractions),
}
