"""Calls that MLX's runtime (of ExecuTorch 1.5.1) computes otherwise than torch, or refuses.

What is found here is left to ExecuTorch's own kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from etlower import operators
from torch.fx import Node

_aten = torch.ops.aten
_WINDOW = re.compile(r"(?:conv|conv_transpose|avg_pool|max_pool)(\d)d")


def is_computed_otherwise(node: Node) -> bool:
    """Tells whether MLX computes something else than a call says, whatever the operator is."""
    return any(tell(node) for tell in _OTHERWISE)


def _is_along_nothing(node: Node) -> bool:
    """Tells whether a number is reduced along a dimension, or all dimensions are kept as one."""
    if operators.packet(node) not in _ALONG:
        return False
    return operators.inputs(node)[0].dim() == 0 or node.args[1:3] == (None, True)


def _is_of_integers(node: Node) -> bool:
    """Tells whether integers or booleans are given to what MLX computes of floats only.

    What counts booleans stays boolean there.
    """
    name, given = operators.packet(node), operators.inputs(node)
    if name in _OF_FLOATS:
        return not all(tensor.is_floating_point() for tensor in given)
    counts = any(map(operators.is_whole, operators.values(node)))
    return name in _COUNTING and counts and all(t.dtype == torch.bool for t in given)


def _fills_beyond(node: Node) -> bool:
    """Tells whether a whole number is beyond those that a payload holds."""
    numbers = [value for value in node.args if isinstance(value, int)]
    return operators.packet(node) in _FILLING and any(abs(n) > _EXACT for n in numbers)


def has_other_type(node: Node) -> bool:
    """Tells whether a tensor has a type that MLX lacks: upstream looks at none of a list."""
    tensors = [*operators.inputs(node), *operators.values(node)]
    return any(tensor.dtype in _LACKED for tensor in tensors)


def _lacks_batches(node: Node) -> bool:
    """Tells whether a window moves over a tensor that has no dimension for the batch: MLX fails."""
    window = _WINDOW.match(operators.packet(node))
    return window is not None and operators.inputs(node)[0].dim() != int(window[1]) + 2


def _sorts_up(node: Node) -> bool:
    return not (node.args[2:3] == (True,) or node.kwargs.get("descending"))


def _finds_largest(node: Node) -> bool:
    return node.args[3:4] != (False,) and bool(node.kwargs.get("largest", True))


def _removes_ones(node: Node) -> bool:
    """MLX fails on other sizes than 1, which torch leaves alone, and takes no dimension for all."""
    shape, dims = node.args[0].meta["val"].shape, node.args[1]
    dims = [dims] if isinstance(dims, int) else dims
    return bool(dims) and all(shape[dim] == 1 for dim in dims)


def _has_dimensions(node: Node) -> bool:
    """MLX picks from no single number."""
    return bool(node.args[0].meta["val"].dim())


def _picks_first_axes(node: Node) -> bool:
    """MLX takes whole numbers; what several of them pick comes first, wherever they are.

    Upstream takes one that has as many dimensions as the tensor for places along its axis.
    """
    places = [place for place, index in enumerate(node.args[1]) if index is not None]
    dtypes = {node.args[1][place].meta["val"].dtype for place in places}
    ranks = [each.meta["val"].dim() for each in (node.args[0], node.args[1][places[0]])]
    if len(places) == 1 and ranks[0] == ranks[1] > 1:
        return False
    is_first = len(places) == 1 or places == list(range(len(places)))
    return is_first and dtypes <= {torch.int32, torch.int64}


def _has_epsilon(node: Node) -> bool:
    """MLX's default is 1e-5, and torch's depends on the type."""
    return bool(node.args[3:4]) and node.args[3] is not None


def _gives_values_only(node: Node) -> bool:
    """MLX has no places of maxima, and upstream hands out memory that nothing was written to."""
    return all(user.args[1] == 0 for user in node.users)


def _corrects_by_whole_number(node: Node) -> bool:
    """MLX cuts off fractions, and keeps no dimensions where all are reduced."""
    correction = node.kwargs.get("correction", 1)
    keeps = node.kwargs.get("keepdim") and not (node.args[1:2] and node.args[1])
    return correction is not None and correction == int(correction) and not keeps


def _rounds_no_quotient_down(node: Node) -> bool:
    """MLX rounds the quotient, eager looks at the rest; of whole numbers they are the same."""
    return not (operators.rounds_down(node) and node.meta["val"].is_floating_point())


def _copies_alike(node: Node) -> bool:
    """MLX neither repeats nor casts what is copied into a tensor."""
    target, source = operators.values(list(node.args[:2]))
    return target.shape == source.shape and target.dtype == source.dtype


def _repeats_along(node: Node) -> bool:
    """MLX takes the first dimension where none is named, and a number has none."""
    dim = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim")
    rank = node.args[0].meta["val"].dim()
    return rank == 1 or (rank > 1 and dim is not None)


def _cuts_off_if_transposed(node: Node) -> bool:
    """MLX fails on a padding that is wider than what the kernel adds to the result."""
    _, weight, _, _, padding, dilation, transposed, *_ = node.args
    return not transposed or _fits(padding, dilation, weight)


def _cuts_off(node: Node) -> bool:
    # padding, output_padding, groups, dilation
    given = node.args[4:]
    padding, _, _, dilation = [*given, *(0, 0, 1, 1)[len(given) :]]
    return _fits(padding, dilation, node.args[1])


def _keeps_type(node: Node) -> bool:
    """MLX adds up in the type that it is given, where torch takes 64 bits for bytes."""
    return bool(node.args[0].meta["val"].dtype == node.meta["val"].dtype)


def _is_added_up_in_its_type(node: Node) -> bool:
    """MLX adds whole numbers up in 32 bits, where torch takes 64."""
    return bool(node.args[0].meta["val"].dtype != torch.int32) or _keeps_type(node)


def _is_multiplied_in_its_type(node: Node) -> bool:
    """MLX multiplies whole numbers in 32 bits, where torch takes 64."""
    return bool(node.args[0].meta["val"].dtype == torch.bool) or _keeps_type(node)


def _fits(padding: Any, dilation: Any, weight: Node) -> bool:
    sizes = weight.meta["val"].shape[2:]
    wide = [padding] * len(sizes) if isinstance(padding, int) else padding
    apart = [dilation] * len(sizes) if isinstance(dilation, int) else dilation
    several = [each * len(sizes) if len(each) == 1 else each for each in (wide, apart)]
    return all(p <= d * (k - 1) for p, d, k in zip(*several, sizes, strict=True))


def _has_fraction(node: Node) -> bool:
    """Tells whether a call gets or gives a fraction that sizes give: payloads have none."""
    given = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    return any(isinstance(value, torch.SymFloat) for value in given)


_OTHERWISE = (
    *(_is_along_nothing, _is_of_integers, _fills_beyond, has_other_type, _lacks_batches),
    _has_fraction,
)
_OF_FLOATS = frozenset(
    {
        *("_log_softmax", "_softmax", "addmm", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
        *("baddbmm", "bmm", "conv1d", "conv2d", "conv3d"),
        *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"),
        *("linalg_vector_norm", "linear", "logsumexp", "matmul", "mean", "mm", "std", "var"),
    }
)
_COUNTING = frozenset({"add", "cumsum", "mul", "pow", "square", "sub"})
GIVING_PLACES = frozenset({"argmax", "argmin", "argsort", "sort", "topk"})
_LACKED = frozenset((torch.float64, torch.int16, torch.uint16, torch.uint64))
_ALONG = frozenset(
    {
        *("_log_softmax", "_softmax", "all", "amax", "amin", "any", "argmax", "argmin", "argsort"),
        *("cumsum", "flip", "logsumexp", "max", "mean", "min", "prod", "roll", "sort", "std"),
        *("sum", "topk", "var"),
    }
)
# The payload has their number as a double.
_FILLING = frozenset({"full", "full_like", "scalar_tensor"})
_EXACT = 2**53
# Operator to what tells that MLX computes a call of it as torch does.
CHECKS: dict[Any, Callable[[Node], bool]] = {
    _aten.argsort.default: _sorts_up,
    _aten.conv_transpose1d.default: _cuts_off,
    _aten.conv_transpose2d.input: _cuts_off,
    _aten.conv_transpose3d.input: _cuts_off,
    _aten.convolution.default: _cuts_off_if_transposed,
    _aten.copy.default: _copies_alike,
    _aten.cumsum.default: _keeps_type,
    _aten.div.Scalar_mode: _rounds_no_quotient_down,
    _aten.div.Tensor_mode: _rounds_no_quotient_down,
    _aten.floor_divide.default: _rounds_no_quotient_down,
    _aten.index.Tensor: _picks_first_axes,
    _aten.index_select.default: _has_dimensions,
    _aten.max_pool1d_with_indices.default: _gives_values_only,
    _aten.max_pool2d_with_indices.default: _gives_values_only,
    _aten.max_pool3d_with_indices.default: _gives_values_only,
    _aten.prod.default: _is_multiplied_in_its_type,
    _aten.prod.dim_int: _is_multiplied_in_its_type,
    _aten.repeat_interleave.self_int: _repeats_along,
    _aten.rms_norm.default: _has_epsilon,
    _aten.sort.default: _sorts_up,
    _aten.squeeze.dims: _removes_ones,
    _aten.squeeze_copy.dims: _removes_ones,
    _aten.std.correction: _corrects_by_whole_number,
    _aten.sum.default: _is_added_up_in_its_type,
    _aten.sum.dim_IntList: _is_added_up_in_its_type,
    _aten.topk.default: _finds_largest,
    _aten.var.correction: _corrects_by_whole_number,
}
