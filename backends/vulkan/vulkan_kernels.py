"""Calls that Vulkan's runtime (ExecuTorch 1.3.1) refuses by ending the process, or computes wrong.

Upstream's partitioner looks at types and storage of most operators, not at such arguments. Each
check was seen to be needed in a program of that one call. What it leaves out, ExecuTorch's own
kernels compute.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch
from etlower import operators
from executorch.backends.transforms.view_copy_to_squeeze_unsqueeze import (
    ViewCopyToSqueezeUnsqueezePass,
)
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

# Depthwise convolutions have shaders of their own for these; that for others computes padding wrong
# and exists without strides only.
_DEPTHWISE = ((3, 3), (5, 5))
# Dimensions of a batch of pictures, and numbers of a texel.
_PICTURE = 4
_TEXEL = 4


# What copies, where the result has the type and the shape of what is given.
_COPIES = frozenset(
    {
        *("_clone_dim_order", "_to_copy", "_to_dim_order_copy", "alias_copy", "clone"),
        *("detach_copy", "expand_copy"),
    }
)
# What was seen to take tensors of more than four dimensions, which no part may take or give.
_OF_MANY_DIMENSIONS = (
    "aten.permute_copy.",
    "aten.select_copy.",
    "aten.view_copy.",
    "dim_order_ops._clone_dim_order.",
)

# What takes sizes that the program computes.
_OF_COMPUTED_SIZES = frozenset({"expand_copy", "full", "view_copy"})
# What takes single ones.
_OF_COMPUTED_SIZE = frozenset({"arange", "native_group_norm", "select_copy", "slice_copy"})


def _is_large(node: Node) -> bool:
    value = _value(node)
    return value is not None and value.dim() > _PICTURE


def _stays_within(node: Node) -> bool:
    """Tells whether only such operators exchange large tensors with a node, or among each other."""
    known, left = {node}, [node]
    while left:
        each = left.pop()
        if not getattr(each.target, "__name__", "").startswith(_OF_MANY_DIMENSIONS):
            return False
        around = [
            *filter(_is_large, each.all_input_nodes),
            *(each.users if _is_large(each) else ()),
        ]
        left += [other for other in around if other not in known]
        known.update(around)
    return True


def refusal(node: Node) -> str:
    """Says why Vulkan must not get a call; empty: it may."""
    name = getattr(node.target, "__name__", "")
    if _is_size_by_values(node):
        return "Vulkan's runtime ends the process on sizes that follow from values"
    values = [_value(each) for each in (node, *node.all_input_nodes)]
    # Conversions of numbers are part of what reads them.
    is_conversion = _is_conversion(node)
    if values[0] is not None and values[0].dim() == 0 and not is_conversion:
        return "Vulkan's runtime ends the process on results without dimensions"
    if isinstance(node.meta.get("val"), list | tuple) and len(node.meta["val"]) == 1:
        return "upstream's check fails on a list of one tensor"
    if operators.is_empty(node):
        return "Vulkan's runtime ends the process on tensors without elements"
    stored = [_value(each) for each in node.all_input_nodes if _is_stored(each)]
    if any(weight is not None and weight.dim() > _PICTURE for weight in stored):
        return "Vulkan's runtime ends the process on weights of more than four dimensions"
    if any(value.dim() > _PICTURE and _is_dynamic(value) for value in values if value is not None):
        return "Vulkan's runtime ends the process on dynamic sizes of more than four dimensions"
    if any(map(_is_large, (node, *node.all_input_nodes))) and not _stays_within(node):
        return "Vulkan's runtime ends the process on more than four dimensions"
    if _has_computed_sizes(node) and operators.packet(node) not in _OF_COMPUTED_SIZES:
        return "Vulkan's runtime ends the process on lists of sizes that are computed"
    if _has_computed_number(node) and operators.packet(node) not in _OF_COMPUTED_SIZE:
        return "Vulkan takes a number that sizes give from the largest ones"
    if _is_constant(node):
        return "it is a constant, which ExecuTorch computes as fast"
    if not is_conversion and any(map(_is_computed_number, node.all_input_nodes)):
        return "Vulkan's runtime ends the process on numbers that are computed"
    if operators.packet(node) in _COPIES and _is_second(node):
        return "Vulkan's runtime loses a copy of what others read"
    if _is_of_bytes(node):
        return "Vulkan's runtime ends the process on bytes that are no quantized values"
    if values[0] is not None and values[0].dtype == torch.int64:
        return "Vulkan computes whole numbers with 32 bits"
    return _CHECKS.get(name.rpartition(".")[0].removeprefix("aten."), _takes)(node)


def _is_of_bytes(node: Node) -> bool:
    value = _value(node)
    is_narrow = value is not None and value.dtype in (torch.int8, torch.int16, torch.uint8)
    source = node.args[0] if node.target is operator.getitem else node
    is_quantized = getattr(source.target, "__name__", "").startswith(_QUANTIZED)
    return is_narrow and not is_quantized and not _is_fixed(node)


def _is_size_by_values(node: Node) -> bool:
    """Tells whether a call checks sizes, or computes one that the values of a tensor decide."""
    given = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    sizes = [each for each in given if isinstance(each, torch.SymInt | torch.SymBool)]
    is_check = operators.packet(node) in ("_assert_scalar", "sym_constrain_range_for_size")
    return is_check or any(free_unbacked_symbols(size) for size in sizes)


def _has_computed_sizes(node: Node) -> bool:
    lists = [each for each in (*node.args, *node.kwargs.values()) if isinstance(each, list | tuple)]
    each = [value for values in lists for value in values if isinstance(value, Node)]
    return any(isinstance(value.meta.get("val"), torch.SymInt) for value in each)


def _has_computed_number(node: Node) -> bool:
    """Tells whether a call computes with a fraction that sizes give, or a tensor with a number."""
    given = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    if any(isinstance(value, torch.SymFloat) for value in given):
        return True
    single = [each for each in (*node.args, *node.kwargs.values()) if isinstance(each, Node)]
    is_of_tensors = bool(operators.values(node))
    return is_of_tensors and any(isinstance(n.meta.get("val"), torch.SymInt) for n in single)


def _value(node: Any) -> Any:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _is_dynamic(value: torch.Tensor) -> bool:
    return not all(isinstance(size, int) for size in value.shape)


def _is_constant(node: Node) -> bool:
    """Tells whether no input is behind a node: upstream's passes fail on it, or lose its numbers.

    Weights that are transposed or dequantized belong to what reads them.
    """
    return not _is_weight(node) and not is_stored_number(node) and _is_fixed(node)


def _is_fixed(node: Node) -> bool:
    if node.op == "placeholder":
        return not node.meta.get(_IS_INPUT, False)
    return node.op == "call_function" and all(map(_is_fixed, node.all_input_nodes))


def _is_weight(node: Node) -> bool:
    return getattr(node.target, "__name__", "").startswith(_OF_WEIGHTS)


def _is_computed_number(node: Node) -> bool:
    value = _value(node)
    return value is not None and value.dim() == 0 and not is_stored_number(node)


def is_stored_number(node: Node) -> bool:
    """Tells whether a tensor without dimensions is one of the program's, converted at most."""
    value = _value(node)
    if value is None or value.dim() != 0:
        return False
    if node.op == "placeholder":
        return _is_fixed(node)
    return _is_conversion(node) and is_stored_number(node.args[0])


def _is_conversion(node: Node) -> bool:
    name = getattr(node.target, "__name__", "").rpartition(".")[0].removeprefix("aten.")
    return _CHECKS.get(name) is _conversion


def _takes(node: Node) -> str:
    return ""


def _convolution(node: Node) -> str:
    x, weight, *_ = node.args
    # Only linear layers transpose a weight as they store it.
    if weight.op == "call_function" and not operators.name(weight).startswith(_QUANTIZED):
        return "Vulkan's runtime ends the process on weights that are computed"
    transposed, groups, dilation = node.args[6], node.args[8], node.args[5]
    shape = list(_value(weight).shape)
    computed = _weights(1, 2)(node)
    if computed:
        return computed
    if _value(x).dim() != 4:
        # It reads on in memory, where a longer row lay before.
        varies = not isinstance(_value(x).shape[-1], int)
        if varies and any(node.args[4]):
            return "Vulkan computes padded rows of dynamic lengths wrong"
        # Of single columns, it has a shader that knows of neither.
        is_plain = groups == 1 and {*node.args[3]} == {1} and not any(node.args[4])
        if not transposed and shape[2] == 1 and not is_plain:
            return "Vulkan's kernels of one column take no strides, no padding and no groups"
        return ""
    if transposed and max(dilation) > 1:
        return "Vulkan's runtime ends the process on dilated transposed convolutions"
    if groups == 1:
        return ""
    if transposed or not groups == shape[0] == _value(x).shape[1]:
        return f"Vulkan computes convolutions in groups wrong: got {groups} groups"
    if tuple(shape[2:]) not in _DEPTHWISE:
        return f"Vulkan computes depthwise convolutions of {shape[2]} × {shape[3]} wrong"
    # One shader for steps within and between windows that differ: it reads on, as with rows.
    varies = any(not isinstance(size, int) for size in _value(x).shape[2:])
    if varies and any(node.args[4]) and [*node.args[3]] != [*dilation]:
        return "Vulkan computes padded depthwise convolutions over dynamic sizes wrong"
    return ""


def _padding(node: Node) -> str:
    is_fused = any("convolution" in operators.name(user) for user in node.users)
    if is_fused and len(node.args) > 2 and node.args[2]:
        return "Vulkan's runtime ends the process on it before a convolution, but for zeros"
    return ""


def _pool(node: Node) -> str:
    lists = [argument for argument in node.args[1:3] if isinstance(argument, list | tuple)]
    if len(node.args) > 2 and all(len(each) == 2 for each in lists):
        return ""
    return "Vulkan's runtime ends the process on pooling without strides"


def _power(node: Node) -> str:
    exponent = node.args[1]
    if isinstance(exponent, Node):
        return "Vulkan's powers of negative numbers by a tensor are no numbers"
    if exponent == int(exponent) or _is_positive(node.args[0]):
        return ""
    return "Vulkan's powers of negative numbers by a fraction are numbers"


def _is_positive(node: Any) -> bool:
    """Tells whether a tensor has no numbers below zero, by what it is a function of."""
    packet = operators.packet(node)
    if packet == "mul":
        return node.args[0] is node.args[1]
    if packet in ("mean", "sum", "view_copy", "permute_copy", "add") and node.args:
        given = node.args[:2] if packet == "add" else node.args[:1]
        return all(_is_positive(v) if isinstance(v, Node) else v >= 0 for v in given)
    if packet in ("clamp", "hardtanh"):
        least = node.args[1] if len(node.args) > 1 else None
        return isinstance(least, int | float) and least >= 0
    is_even = packet == "pow" and isinstance(node.args[1], int | float) and node.args[1] % 2 == 0
    return is_even or packet in ("_softmax", "abs", "exp", "relu", "sigmoid", "sqrt")


def _index(node: Node) -> str:
    return "Vulkan's runtime ends the process on most indices, or computes them wrong"


def _selection(node: Node) -> str:
    if not _is_dynamic(_value(node)):
        return ""
    return "Vulkan gives as many elements as for the largest sizes, where one varies"


def _filled(node: Node) -> str:
    if not _is_dynamic(_value(node)):
        return ""
    return "upstream's passes fail on a part that gets nothing but sizes"


def _squeeze(node: Node) -> str:
    if not _is_dynamic(_value(node)):
        return ""
    return "Vulkan gives dimensions of one the largest sizes as they go, or ends the process"


def _view(node: Node) -> str:
    before, after = [*_value(node.args[0]).shape], [*_value(node).shape]
    if not all(isinstance(size, int) for size in (*before, *after)):
        return ""
    # Of a column that becomes a row (5 × 1 to 1 × 1 × 5), it does not compare all sizes.
    dim = ViewCopyToSqueezeUnsqueezePass().find_unsqueeze_dim(before, node.args[1])
    if not dim or [*_value(node.args[0]).unsqueeze(dim).shape] == after:
        return ""
    return f"upstream takes a view of {before} as {after} for a dimension of one that is added"


def _normalization_of_batches(node: Node) -> str:
    if _value(node.args[0]).dim() != _PICTURE:
        return "Vulkan's runtime ends the process on other inputs than those of four dimensions"
    return _all_stored(node.args[1:5])


# Found by trying widths from 4 to 384: of three texels, the second batch gets other means.
_ODD_LAYER = 12


def _normalization_of_layers(node: Node) -> str:
    if len(node.args[1]) != 1:
        return "Vulkan's runtime ends the process on layers of more than one dimension"
    size = node.args[1][0]
    if not isinstance(size, int) or size % _TEXEL:
        return f"Vulkan normalizes layers of {size} numbers wrong, which is no multiple of four"
    if size == _ODD_LAYER and _value(node.args[0]).dim() == 3:
        return f"Vulkan normalizes layers of {size} numbers in batches of rows wrong"
    return _all_stored(node.args[2:4])


def _normalization_of_groups(node: Node) -> str:
    x = _value(node.args[0])
    if x.dim() != _PICTURE:
        return "Vulkan's runtime ends the process on other inputs than those of four dimensions"
    if not isinstance(x.shape[0], int):
        return "Vulkan normalizes groups of batches of dynamic sizes wrong"
    return _all_stored(node.args[1:3])


def _all_stored(weights: Any) -> str:
    if all(isinstance(each, Node) and _is_stored(each) for each in weights):
        return ""
    return "Vulkan's runtime ends the process on weights that are computed or left out"


def _reduction(node: Node) -> str:
    value = _value(node.args[0])
    dims = [node.args[1]] if isinstance(node.args[1], int) else node.args[1]
    if not dims and not operators.packet(node).startswith("arg"):
        return "Vulkan's runtime ends the process on reductions over an empty list of dimensions"
    # Pictures of a batch lie behind each other in the dimension of the channels.
    wrong = (0, 1) if value.shape[:1] != (1,) else (0,)
    if value.dim() == _PICTURE and any(dim % _PICTURE in wrong for dim in dims or []):
        return "Vulkan's runtime ends the process on reductions along batches or their channels"
    return ""


def _nearest(node: Node) -> str:
    before, after = _value(node.args[0]).shape[2:], _value(node).shape[2:]
    sizes = list(zip(before, after, strict=True))
    if all(isinstance(n, int) and (n % m == 0 or m % n == 0) for m, n in sizes):
        return _fractions(node) or _factors(node)
    return f"Vulkan picks other pixels unless sizes are multiples: {[*before]} to {[*after]}"


def _bilinear(node: Node) -> str:
    # It divides by the size minus 1.
    if node.args[2] and 1 in _value(node).shape[2:]:
        return "Vulkan gives no numbers for a single row or column whose corners are aligned"
    if _has_varying_ratio(node):
        return "Vulkan resizes by the ratio of the largest sizes, where others have another one"
    return _fractions(node) or _factors(node)


def _has_varying_ratio(node: Node) -> bool:
    """Tells whether the step from pixel to pixel depends on a size that varies."""
    before, after = _value(node.args[0]).shape[2:], _value(node).shape[2:]
    ends = 1 if node.args[2] else 0
    pairs = [(m, n) for m, n in zip(before, after, strict=True) if {type(m), type(n)} != {int}]
    ratios = [
        sympy.simplify((sympy.sympify(m) - ends) / (sympy.sympify(n) - ends)) for m, n in pairs
    ]
    return not all(ratio.is_number for ratio in ratios)


def _factors(node: Node) -> str:
    if not operators.has_other_factors(node):
        return ""
    return "Vulkan's runtime ends the process on a factor that is not the ratio of sizes"


def _gelu(node: Node) -> str:
    if node.kwargs.get("approximate", "none") == "tanh" or node.meta.get(INEXACT_GELU):
        return ""
    return 'Vulkan computes its approximation, 5e-4 off, unless allow_inexact has "gelu"'


def _clamp(node: Node) -> str:
    return "" if _value(node).dtype.is_floating_point else "Vulkan's runtime ends the process on it"


def _conversion(node: Node) -> str:
    if _value(node).dtype == torch.bool != _value(node.args[0]).dtype:
        return "Vulkan's runtime ends the process on conversions to booleans"
    source = node.args[0]
    if _value(source).dtype == torch.int64 and source.meta.get(_IS_WIDE, True):
        return "Vulkan reads 32 bits of whole numbers of 64"
    order = list(_value(node).dim_order())
    return "Vulkan's runtime gives rows only" if order != sorted(order) else ""


def _is_second(node: Node) -> bool:
    """Tells whether others read what a call copies as well: upstream takes both for one tensor."""
    source = node.args[0]
    result, given = _value(node), _value(source)
    is_same = (result.dtype, result.shape) == (given.dtype, given.shape)
    return is_same and len(source.users) > 1


def _quotient(node: Node) -> str:
    # Of None, too.
    if operators.packet(node) == "floor_divide" or "rounding_mode" in node.kwargs:
        return "Vulkan's runtime rounds quotients otherwise, or ends the process"
    return _fractions(node)


def _fractions(node: Node) -> str:
    whole = [
        v for v in map(_value, node.all_input_nodes) if v is not None and operators.is_whole(v)
    ]
    return f"Vulkan lacks it for {whole[0].dtype}, or computes it wrong" if whole else ""


def _equality(node: Node) -> str:
    return _fractions(node) or "Vulkan takes numbers that are less than 1e-5 apart for equal"


def _copy(node: Node) -> str:
    return "Vulkan takes what is written to for what is copied"


def _weights(*places: int) -> Callable[[Node], str]:
    def check(node: Node) -> str:
        weights = [node.args[place] for place in places if place < len(node.args)]
        turns = 0 if operators.packet(node) == "linear" else 1
        if any(isinstance(weight, Node) and not _is_stored(weight, turns) for weight in weights):
            return "Vulkan's runtime ends the process on weights that are computed"
        return ""

    return check


def _product(*places: int) -> Callable[[Node], str]:
    stored = _weights(*places)
    return lambda node: _fractions(node) or stored(node)


def _is_stored(node: Node, turns: int = 1) -> bool:
    """Tells whether a weight is one of the program's, dequantized or transposed at most.

    Args:
      node: the weight.
      turns: how often it may be transposed.
    """
    while node.op == "call_function":
        turns -= not operators.name(node).startswith(_QUANTIZED)
        if turns < 0 or not _is_weight(node):
            return False
        node = node.args[0]
    return node.op == "placeholder" and not node.meta.get(_IS_INPUT, False)


_QUANTIZED = ("quantized_decomposed.", "torchao.")
_OF_WEIGHTS = ("aten.permute_copy.", "aten.t_copy.", "aten.transpose_copy.", *_QUANTIZED)
# Set by the partitioner where the recipe allows the approximation.
INEXACT_GELU = "vulkan_gelu"
# Set by the partitioner, which knows the program's signature.
_IS_INPUT = "vulkan_input"
_IS_WIDE = "vulkan_wide"


def mark(program: torch.export.ExportedProgram, inexact_gelu: bool) -> None:
    """Notes at nodes what `refusal` asks for.

    Args:
      program: of the partitioner.
      inexact_gelu: whether GELU may be the approximation by tanh.
    """
    for node in program.graph.nodes:
        node.meta[INEXACT_GELU] = inexact_gelu
        # Vulkan takes dimensions from the end for the first one.
        if getattr(node.target, "__name__", "") == "aten.gather.default" and node.args[1] < 0:
            dim = node.args[1] + _value(node.args[0]).dim()
            node.args = (node.args[0], dim, *node.args[2:])
    # Placeholders are inputs of the method, or stored.
    signature = program.graph_signature
    inputs = set(signature.user_inputs)
    targets = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    stored = {**program.state_dict, **program.constants}
    for node in program.graph.find_nodes(op="placeholder"):
        node.meta[_IS_INPUT] = node.name in inputs
        node.meta[_IS_WIDE] = _is_wide(stored.get(targets.get(node.name)))


def _is_wide(value: Any) -> bool:
    """Tells whether a stored tensor may have a number that 32 bits do not hold; None: it may."""
    if not isinstance(value, torch.Tensor) or value.is_floating_point():
        return True
    if value.dtype != torch.int64:
        return False
    # Upstream partitions with tensors that have no bytes; those of numbers keep them beside.
    numbers = value.constant if isinstance(value, FakeTensor) else value
    limits = torch.iinfo(torch.int32)
    with unset_fake_temporarily():
        return numbers is None or not bool(
            ((numbers >= limits.min) & (numbers <= limits.max)).all()
        )


_CHECKS: Mapping[str, Callable[[Node], str]] = {
    "_native_batch_norm_legit_no_training": _normalization_of_batches,
    "_log_softmax": _reduction,
    "_softmax": _reduction,
    "_to_copy": _conversion,
    "addmm": _product(0, 2),
    "arange": _filled,
    "avg_pool2d": _pool,
    "clamp": _clamp,
    "constant_pad_nd": _padding,
    "convolution": _convolution,
    "copy": _copy,
    "dim_order_ops._clone_dim_order": _conversion,
    "dim_order_ops._to_dim_order_copy": _conversion,
    **dict.fromkeys(("div", "floor_divide"), _quotient),
    "embedding": _weights(0),
    "full": _filled,
    "gelu": _gelu,
    "index": _index,
    "index_select": _selection,
    "linear": _product(1, 2),
    "max_pool2d_with_indices": _pool,
    "bmm": _product(),
    "mm": _product(1),
    "native_group_norm": _normalization_of_groups,
    "native_layer_norm": _normalization_of_layers,
    "pow": _power,
    "squeeze_copy": _squeeze,
    "upsample_bilinear2d": _bilinear,
    "upsample_nearest2d": _nearest,
    "view_copy": _view,
    **dict.fromkeys(("amax", "amin", "argmax", "argmin", "mean", "sum"), _reduction),
    # Sums of whole numbers are computed in floats.
    **dict.fromkeys(("add", "rsub", "sub"), _fractions),
    "eq": _equality,
    **dict.fromkeys(("ge", "gt", "le", "lt", "ne"), _fractions),
}
