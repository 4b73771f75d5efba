"""Operators written out as others, where a delegate or a kernel computes something else for them.

A rule has operators and when it applies; what a node is written as is an ordinary function of
tensors, traced with the node's shapes. Graphs without such a node stay as they are, to the byte.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from etbuild import corners, ranges

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node


@dataclass(frozen=True)
class _Rule:
    """A rule.

    Attributes:
      operators: names of aten operators with overload: "addmm.default".
      applies: tells of a node whether it is to be written out.
      function: what is computed instead, of the operator's own arguments.
      whole: whether operators that torch composes of others stay whole in it.
    """

    operators: tuple[str, ...]
    applies: Callable[[Node], bool]
    function: Callable[..., Any]
    whole: bool = False


# Rules for ExecuTorch's own kernels, which all recipes get: each makes a call that fails, or whose
# result is wrong, into one that is right.
FOR_KERNELS = (
    "attention_view",
    "boolean_power",
    "byte_numbers",
    "channels_last",
    "double_remainder",
    "empty_padding",
    "first_number",
    "floor_division",
    "half_comparison",
    "half_number",
    "half_result",
    "index_type",
    "integer_power",
    "integer_remainder",
    "integer_shift",
    "kept_size",
    "max_pool_backward",
    "mixed_types",
    "narrow_copy",
    "negative_padding",
    "no_dimension",
    "non_blocking",
    "number_remainder",
    "one_loss",
    "one_order",
    "scalar_shape",
    "scalar_sum",
    "scalar_type",
    "weight_order",
    "whole_correction",
    "whole_sum",
    "zero_factor",
)
# Why, in a sentence on operators of each rule.
REASONS: Mapping[str, str] = {
    "addmm": "the delegate leaves out the factors",
    "attention_heads": "upstream's lowering takes lengths for heads",
    "attention_view": "upstream's attention has another order in memory, and no such view of it",
    "byte_numbers": "the kernels refuse numbers that no byte holds, or compute something else",
    "channels_last": "kernels and delegates take rows only",
    "circular_padding": "the delegate takes its integers for fractions",
    "double_remainder": "the kernel computes in 32 bits",
    "einsum": "the delegate moves dimensions of one element wrong",
    "elu": "the delegate leaves out the factors",
    "empty_padding": "the kernels take no empty tensors, or give them another shape",
    "even_windows": "the delegate averages twice, with a scale that is too small between",
    "floor_division": "the kernel gives infinity for zero by zero, and signs of its own",
    "gelu": "the delegate computes the exact GELU for the approximation, up to 5e-4 apart",
    "half_comparison": "the kernels compare with the number before it is rounded to 16 bits",
    "half_number": "upstream makes it one of 16 bits, which is infinite, or has few digits",
    "half_range": "a step of it leaves the range of the delegate's 16-bit floats",
    "half_result": "upstream makes its numbers 32-bit tensors, so the result would have 32 bits",
    "hard_sigmoid": "the kernels have it as a part of a layer only",
    "hardtanh": "the delegate's lowering fails where a bound has its default",
    "hidden_rows": "of scores that are all hidden the delegate takes the mean, and eager 0",
    "index_type": "the kernel takes 64-bit indices only",
    "instance_norm": "the delegate leaves out small epsilons and statistics of a training",
    "integer_power": "the kernel computes in doubles, which have 53 bits",
    "integer_remainder": "the kernel's result has the sign of what is divided",
    "integer_shift": "the kernel shifts by negative and by large numbers as the processor does",
    "kept_size": "kernels scale a dimension whose size stays, and eager does not",
    "max_pool_backward": "the kernel adds to memory that nobody has set to zero",
    "mixed_types": "upstream gives the operands no common type",
    "narrow_copy": "the kernel ends the process for some sizes and for dimensions from the end",
    "negative_padding": "the kernel takes no negative numbers",
    "non_blocking": "the kernel refuses the flag",
    "norm_dimensions": "the delegate takes one dimension only",
    "number_remainder": "there is no kernel for a number first",
    "one_order": "its strides name two orders, of which kernels and delegates see different ones",
    "padded_average": "the delegate pads with steps of zero, which stand for another number",
    "reflection_pad": "the delegate pads with zeros",
    "rank": "the delegate fails on more than four dimensions, or moves those of one element wrong",
    "scalar_shape": "kernels and delegates refuse or crash on tensors without dimensions",
    "single_any": "the delegate's result has a dimension too many",
    "sum_factor": "the delegate leaves out the factor",
    "swish": "the delegate fuses it, and gets it wrong in 16 bits",
    "scalar_sum": "the kernels refuse or crash on tensors without dimensions",
    "scalar_type": "the kernel refuses a fraction beside whole numbers",
    "uneven_padding": "the delegate reads memory that nothing was written to, or omits a side",
    "weight_order": "the result has the order of the weights, and kernels want it of the input",
    "zero_factor": "the kernel makes NaN of an infinity or a NaN that counts for nothing",
    **corners.REASONS,
}

# What a recipe may be told to leave inexact (`allow_inexact` of et_recipe).
CHOICES = ("addmm", "bilinear", "gelu", "reflection_pad")


def write_out(*names: str) -> WriteOut:
    """A pass for `ExportRecipe.aten_transform_passes` that writes operators out as others.

    Args:
      names: of rules:
        "addmm": `torch.addmm` with factors, as a product and a sum.
        "attention_heads": `scaled_dot_product_attention` of fewer than four dimensions.
        "attention_view": views of `scaled_dot_product_attention` that join heads and rows.
        "boolean_power": powers of booleans by a whole number, which are whole numbers.
        "byte_numbers": arithmetic of bytes and numbers below 0 or above 255, which wrap.
        "channels_last": normalizations, `softmax`, `argmax`, `cumsum`, `flip`, `gather` and
          shuffled pixels of tensors whose channels lie last; `lerp` and `index_fill` of any that
          are not in rows.
        "circular_padding": circular padding, as parts that are joined.
        "double_remainder": `%` of 64-bit floats.
        "einsum": `torch.einsum` of two tensors, as a product of matrices.
        "elu": ELU with factors, SELU and CELU, as sums and products of it.
        "empty_padding": padding and `pixel_unshuffle` of tensors without elements.
        "even_windows": averages over windows of even sizes side by side, as averages over 2 x 2
          and of those.
        "first_number": sums of a single number and a tensor with a factor.
        "floor_division": `//` of floats by a tensor, in which there may be zeros.
        "gelu": GELU that is approximated by tanh, in programs that are not quantized: beside the
          noise of a quantization its difference of 5e-4 is nothing.
        "half_comparison": comparisons of 16-bit floats with numbers that these do not hold.
        "half_number": products and quotients of 16-bit floats and very large or small numbers.
        "half_range": norms of vectors, softplus, mish, `erfc` and powers of a number, in steps
          that stay within 65,504.
        "half_result": functions of 16-bit floats that upstream would give in 32 bits.
        "hard_sigmoid": hard sigmoid and hard swish that follow no layer, or not alone.
        "hardtanh": bounds of which one has its default, as those of `clamp`.
        "hidden_rows": `scaled_dot_product_attention` whose mask may hide all of a row, which is 0.
        "index_type": `gather` and `scatter` by indices that are not 64-bit integers.
        "integer_power": powers of whole numbers, also those beyond a double's 53 bits.
        "instance_norm": instance normalization of pictures, as group normalization.
        "integer_remainder": `%` of whole numbers, whose sign is the divisor's.
        "integer_shift": shifts of bits by less than 0, or by more than there are.
        "kept_size": resizing by factors that leave a dimension as large as it is, by 1 there.
        "max_pool_backward": the gradient of a maximum over windows.
        "mixed_types": remainders, operations on bits, joined tensors and normalizations of several
          types, and multiples of booleans that are added by index.
        "narrow_copy": copies of a part, as a slice and a copy.
        "negative_padding": padding that cuts off, as slices, and that of what `fold` gives.
        "no_dimension": reductions over an empty list of dimensions, as those over all.
        "non_blocking": copies that do not wait, as those that do.
        "norm_dimensions": `rms_norm` over several dimensions, as one over all of them at once.
        "number_remainder": `%` of a number by a tensor.
        "one_loss": `multi_margin_loss` of one row without a batch, not reduced.
        "one_order": copies with the channels last that have rows first as well or have five
          dimensions, with rows first.
        "padded_average": averages over windows whose padding counts, as a padding and averages.
        "rank": permutations of more than four dimensions of which some have one element only, as
          permutations of the others, and those that move such dimensions only, as views.
        "reflection_pad": as slices that are turned and joined.
        "scalar_shape": permutations and windows of tensors without dimensions.
        "scalar_sum": sums and cumulative sums of tensors without dimensions.
        "scalar_type": sums and differences of whole numbers and a fraction, which may be a bound.
        "uneven_padding": padding by a number of other sizes before than behind, as even padding of
          which a part is taken.
        "weight_order": convolutions of rows whose weights have their channels last.
        "sum_factor": sums and differences of tensors of which one has a factor.
        "whole_correction": variances whose correction is the count of elements or more.
        "swish": SiLU behind anything but a linear layer, written so that no compiler fuses it.
        "single_any": `any` and `all` of whole tensors, as those of a dimension.
        "zero_factor": `torch.addmm` whose first tensor is multiplied by 0, as a product.

    Returns:
      The pass.

    Raises:
      KeyError: no rule has that name.

    Example:

        ExportRecipe(name="npu", aten_transform_passes=[write_out("addmm")], …)
    """
    unknown = sorted(set(names) - RULES.keys())
    if unknown:
        raise KeyError(f"{unknown[0]}: expected one of {', '.join(sorted(RULES))}")
    return WriteOut(names)


@dataclass(frozen=True)
class WriteOut:
    """The pass; two of the same rules are equal, so that recipes with both can be mixed."""

    names: tuple[str, ...]

    def __call__(self, method: str, program: ExportedProgram) -> ExportedProgram:
        """Writes out, and says nothing."""
        self.apply(program)
        return program

    def apply(self, program: ExportedProgram) -> list[Written]:
        """Writes out what the rules name, and returns it in the graph's order."""
        from torch.fx import GraphModule

        modules = [m for m in program.graph_module.modules() if isinstance(m, GraphModule)]
        return [written for module in modules for written in _write_out_in(module, self.names)]


def write_out_before_quantization(module: GraphModule, *names: str) -> None:
    """Writes operators out in a graph that is captured to be quantized: what replaces them is, too.

    Args:
      module: with torch's own operators.
      names: of rules, as `write_out` has them.
    """
    _write_out_in(module, names)


@dataclass(frozen=True)
class Written:
    """A call that was written out.

    Attributes:
      rule: name of the rule.
      node: the call, which is now the last one of those that replace it.
      operator: what it called before: "aten.gelu.default".
      count: how many operators replace it.
    """

    rule: str
    node: Node
    operator: str
    count: int


def _write_out_in(module: GraphModule, names: Sequence[str]) -> list[Written]:
    found: list[Written] = []
    # What is made of these is looked at below.
    composites = {operator for name in names for operator in _COMPOSITES.get(name, ())}
    for node in list(module.graph.nodes) if composites else ():
        operator = str(node.target).removeprefix("aten.")
        if node.op == "call_function" and operator in composites:
            _replace(node, _call(operator))
            module.recompile()
    for node in list(module.graph.nodes):
        operator = str(node.target)
        base = _without_writing(operator.removeprefix("aten."))
        for name in names if node.op == "call_function" else ():
            for rule in RULES[name]:
                if str(node.target) != operator:
                    break
                if base in rule.operators and rule.applies(node):
                    writes = base != operator.removeprefix("aten.")
                    function = _written(rule.function) if writes else rule.function
                    count = _replace(node, function, rule.whole)
                    found.append(Written(name, node, operator, count))
    if found:
        module.recompile()
    return found


def _without_writing(operator: str) -> str:
    """Name of the operator that an operator is which writes into its first tensor, or its own."""
    if operator in _OTHER_OVERLOADS:
        return _OTHER_OVERLOADS[operator]
    packet, _, overload = operator.partition(".")
    if packet.startswith("__i"):
        packet = f"__{packet[3:]}"
    elif packet.endswith("_") and not packet.startswith("__"):
        packet = packet[:-1]
    return f"{packet}.{overload}"


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    def written(x: Any, *rest: Any, **kwargs: Any) -> Any:
        return x.copy_(function(x, *rest, **kwargs))

    return written


def _replace(node: Node, function: Callable[..., Any], whole: bool = False) -> int:
    """Puts the graph of a function before a node, which becomes its last operator.

    Args:
      node: the call.
      function: of its arguments.
      whole: as of a rule.

    Returns:
      How many operators the function has.
    """
    import torch
    from torch.fx import Node as FxNode
    from torch.fx.experimental import _config as config
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils import _pytree as pytree

    flat, tree = pytree.tree_flatten((node.args, node.kwargs))
    places = [n for n, value in enumerate(flat) if isinstance(value, FxNode)]

    def computed(*values: Any) -> Any:
        filled = list(flat)
        for place, value in zip(places, values, strict=True):
            filled[place] = value
        args, kwargs = pytree.tree_unflatten(filled, tree)
        return function(*args, **kwargs)

    def in_rows(*values: Any) -> Any:
        return computed(*values).clone(memory_format=torch.contiguous_format)

    def trace(traceable: Callable[..., Any]) -> tuple[Any, Any]:
        if any(map(_varies, values)):
            # Otherwise sizes that vary would become those of the example in silence.
            with config.patch(backed_size_oblivious=True):
                mode = {"tracing_mode": "symbolic", "pre_dispatch": whole}
                graph = make_fx(traceable, **mode)(*values).graph
        else:
            graph = make_fx(traceable, pre_dispatch=whole)(*values).graph
        [output] = graph.find_nodes(op="output")
        return graph, output.args[0]

    inputs = [flat[place] for place in places]
    values = [source.meta["val"] for source in inputs]
    traced, last = trace(computed)
    if _fails_in_views(node, last.meta["val"]):
        traced, last = trace(in_rows)
    nodes: dict[Node, Node] = dict(zip(traced.find_nodes(op="placeholder"), inputs, strict=True))
    with node.graph.inserting_before(node):
        for made in traced.nodes:
            if made.op == "call_function" and made is not last:
                nodes[made] = node.graph.node_copy(made, nodes.__getitem__)
                nodes[made].meta = {**node.meta, "val": made.meta["val"]}
    # The node stays, as the program's signature has its name.
    node.args = pytree.tree_map_only(FxNode, nodes.__getitem__, last.args)
    node.kwargs = pytree.tree_map_only(FxNode, nodes.__getitem__, last.kwargs)
    node.target = last.target
    value, result = node.meta.get("val"), last.meta["val"]
    if hasattr(value, "dtype") and value.dtype != result.dtype:
        # Of some functions torch's export has another type or shape than they give.
        node.meta["val"] = value.to(result.dtype)
    elif hasattr(value, "shape") and value.dim() != result.dim():
        node.meta["val"] = value.new_empty(result.shape)
    return sum(made.op == "call_function" for made in traced.nodes)


def _fails_in_views(node: Node, value: Any) -> bool:
    """Tells whether a view of a node, or a view of one, takes no value whose strides are these."""
    from torch.fx.node import map_arg

    def example(given: Node) -> Any:
        return value if given is node else given.meta["val"]

    if getattr(node.meta.get("val"), "stride", tuple)() == getattr(value, "stride", tuple)():
        return False
    for user in node.users:
        returns = getattr(getattr(user.target, "_schema", None), "returns", ())
        aliases = [each.alias_info for each in returns if each.alias_info]
        if len(returns) != 1 or not aliases or aliases[0].is_write:
            continue
        try:
            result = user.target(*map_arg(user.args, example), **map_arg(user.kwargs, example))
        except (RuntimeError, ValueError):
            return True
        if hasattr(result, "stride") and _fails_in_views(user, result):
            return True
    return False


def _varies(value: Any) -> bool:
    """Tells whether a value is a size that varies, or has one."""
    sizes = getattr(value, "shape", (value,))
    return not all(isinstance(size, int | float | bool) for size in sizes)


def _argument(node: Node, position: int, name: str, default: Any) -> Any:
    given: Any = node.args[position] if len(node.args) > position else default
    return node.kwargs.get(name, given)


def _dtype(node: Node) -> Any:
    return node.meta["val"].dtype


def _has_factors(node: Node) -> bool:
    return (_argument(node, 3, "beta", 1), _argument(node, 4, "alpha", 1)) != (1, 1)


def _has_zero_factor(node: Node) -> bool:
    return bool(_argument(node, 3, "beta", 1) == 0)


def _addmm(bias: Any, x: Any, y: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    product = alpha * (x @ y)
    # What is multiplied by zero counts for nothing, be it infinite.
    return product if beta == 0 else beta * bias + product


def _is_norm(node: Node) -> bool:
    value = node.meta["val"]
    is_float = value.dtype.is_floating_point and value.numel() > 0
    return bool(is_float and ranges.is_written(_argument(node, 1, "ord", 2)))


def _is_positive(node: Node) -> bool:
    """Tells whether a power is of a number above zero, and a fraction."""
    base = node.args[0]
    is_float = node.meta["val"].dtype.is_floating_point
    return bool(is_float and isinstance(base, int | float) and 0 < base != 1)


def _normalizes_pictures(node: Node) -> bool:
    """Tells whether pictures are normalized by their own means, not by those of a training."""
    return bool(node.meta["val"].dim() == 4 and node.args[5])


def _instance_norm(x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    import torch

    epsilon = rest[4]
    return torch.nn.functional.group_norm(x, x.shape[1], weight, bias, epsilon)


def _has_scales(node: Node) -> bool:
    return (_argument(node, 2, "scale", 1), _argument(node, 3, "input_scale", 1)) != (1, 1)


def _elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    """The smooth half by an ELU of its own, which is zero for the other numbers."""
    import torch

    smooth = torch.nn.functional.elu((x * input_scale).clamp(max=0), alpha)
    return (x.clamp(min=0) + smooth) * scale


def _celu(x: Any, alpha: float = 1) -> Any:
    import torch

    if alpha < 0:
        return torch.where(x > 0, x, torch.expm1(x / alpha) * alpha)
    return _elu(x, alpha, 1, 1 / alpha)


def _selu(x: Any) -> Any:
    return _elu(x, 1.6732632423543772, 1.0507009873554805)


def _pair(values: Any) -> tuple[int, int]:
    """A height and a width, which may be one number or one in a list."""
    return (values, values) if isinstance(values, int) else (values[0], values[-1])


def _is_halved(height: int, width: int) -> bool:
    return height % 2 == width % 2 == 0 and min(height, width) > 2


def _has_even_windows(node: Node) -> bool:
    """Tells whether windows lie side by side, have even sizes beyond 2, and cover no image."""
    given = tuple(node.args[0].meta["val"].shape[-2:])
    if not all(isinstance(size, int) for size in given):
        return False
    if str(node.target).startswith("aten.adaptive_avg_pool2d"):
        sizes = _pair(node.args[1])
        is_even = all(size % of == 0 for size, of in zip(given, sizes, strict=True))
        window = tuple(size // of for size, of in zip(given, sizes, strict=True))
        return is_even and window != given and _is_halved(*window)
    window, padding = _pair(node.args[1]), _pair(_argument(node, 3, "padding", 0))
    strides = _argument(node, 2, "stride", ()) or window
    padded = [size + 2 * around for size, around in zip(given, padding, strict=True)]
    # Windows that are cut off have divisors of their own.
    is_cut = _argument(node, 4, "ceil_mode", False) and any(
        size % of for size, of in zip(padded, window, strict=True)
    )
    counts = _argument(node, 5, "count_include_pad", True) or not any(padding)
    is_mean = counts and not is_cut and _argument(node, 6, "divisor_override", None) is None
    return is_mean and _pair(strides) == window != given and _is_halved(*window)


def _halved(
    x: Any, window: Any, stride: Any = (), padding: Any = 0, *others: Any, **named: Any
) -> Any:
    import torch

    above, left = _pair(named.get("padding", padding))
    if above or left:
        x = torch.nn.functional.pad(x, (left, left, above, above))
    height, width = _pair(window)
    while _is_halved(height, width):
        x = torch.nn.functional.avg_pool2d(x, 2)
        height, width = height // 2, width // 2
    return torch.nn.functional.avg_pool2d(x, (height, width))


def _adaptively_halved(x: Any, sizes: Any) -> Any:
    window = [size // of for size, of in zip(x.shape[-2:], _pair(sizes), strict=True)]
    return _halved(x, window)


def _counts_padding(node: Node) -> bool:
    padding = _argument(node, 3, "padding", 0)
    counts = _argument(node, 5, "count_include_pad", True)
    return counts and any([padding] if isinstance(padding, int) else padding)


def _padded_average(rank: int) -> Callable[..., Any]:
    def function(
        x: Any,
        window: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        import torch

        windows, widths = (_of_each(given, rank) for given in (window, padding))
        strides = _of_each(stride, rank) if stride else windows
        around = [width for width in reversed(widths) for _ in range(2)]
        sizes = list(x.shape[-rank:])
        x = torch.nn.functional.pad(x, around)
        if rank == 1:
            x = torch.ops.aten.avg_pool1d.default(x, windows, strides, [0], ceil_mode)
        else:
            more = (divisor_override,) if divisor_override else ()
            x = torch.ops.aten.avg_pool2d.default(
                x, windows, strides, [0, 0], ceil_mode, True, *more
            )
        # No window begins in what was padded behind.
        for place, (size, step, width) in enumerate(zip(sizes, strides, widths, strict=True)):
            most = -(-(size + width) // step)
            if ceil_mode and x.shape[place - rank] > most:
                x = x.narrow(place - rank, 0, most)
        return x

    return function


def _of_each(values: Any, rank: int) -> list[int]:
    """A number for each dimension, of which one may be given for all."""
    numbers = [values] if isinstance(values, int) else list(values)
    return numbers * rank if len(numbers) < rank else numbers


def _is_unquantized_tanh(node: Node) -> bool:
    """Tells whether a GELU is the approximation, in 32-bit floats of a graph without integers."""
    import torch

    approximates = node.kwargs.get("approximate") == "tanh" and _dtype(node) == torch.float32
    quantized = ("quantized_decomposed.", "torchao.")
    return approximates and not any(
        str(other.target).startswith(quantized) for other in node.graph.nodes
    )


def _gelu(x: Any, *, approximate: str) -> Any:
    """As torch computes it: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))."""
    cube = x * x * x
    inner = x + cube * 0.044715
    return (x * 0.5) * ((inner * math.sqrt(2 / math.pi)).tanh() + 1.0)


def _is_apart(node: Node) -> bool:
    """Tells whether a result follows no layer over pictures, rows or features, or not alone."""
    source = node.args[0]
    layer = str(source.target).removeprefix("aten.").partition(".")[0]
    dims = {"conv1d": 3, "conv2d": 4, "conv_transpose2d": 4, "linear": None}
    is_layer = layer in dims and dims[layer] in (None, source.meta["val"].dim())
    return not is_layer or len(source.users) > 1


def _hard_sigmoid(x: Any) -> Any:
    return (x * (1 / 6) + 0.5).clamp(0, 1)


def _hard_swish(x: Any) -> Any:
    return x * _hard_sigmoid(x)


def _is_apart_from_linear(node: Node) -> bool:
    """Tells whether what a function is given is no linear layer's result."""
    return not str(node.args[0].target).startswith("aten.linear.")


def _is_swish(node: Node) -> bool:
    """Tells whether a product is that of a value, which is no linear layer's, and its sigmoid."""
    sigmoids = [n for n in node.all_input_nodes if str(n.target).startswith("aten.sigmoid")]
    return any(n.args[0] in node.args and _is_apart_from_linear(n) for n in sigmoids)


def _silu(x: Any) -> Any:
    return (x * 1.0) * x.sigmoid()


def _product_apart(x: Any, y: Any) -> Any:
    return (x * 1.0) * y


def _has_default_bound(node: Node) -> bool:
    return len(node.args) < 3


def _hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    return x.clamp(min_val, max_val)


def _is_whole(node: Node) -> bool:
    return not _dtype(node).is_floating_point


def _is_double(node: Node) -> bool:
    import torch

    return _dtype(node) == torch.float64


def _remainder(x: Any, y: Any) -> Any:
    import torch

    if isinstance(y, int) and not x.dtype.is_signed and x.dtype != torch.bool:
        return torch.fmod(x, y % 2 ** (8 * x.dtype.itemsize))
    x, y = _in_common_type(x, y)
    rest = torch.fmod(x, y)
    return torch.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _remainder_of_number(number: Any, y: Any) -> Any:
    import torch

    dtype = torch.result_type(number, y)
    x = torch.full((), _wrapped(number, dtype) if _is_wide(number, dtype) else number, dtype=dtype)
    is_right = dtype.is_floating_point and dtype != torch.float64
    return torch.remainder(x, y.to(dtype)) if is_right else _remainder(x, y)


def _is_wide(number: Any, dtype: Any) -> bool:
    import torch

    return type(number) is int and not dtype.is_floating_point and dtype != torch.bool


def _may_floor_zero(node: Node) -> bool:
    """Tells whether floats are divided by a tensor, and rounded down."""
    operator = str(node.target).removeprefix("aten.")
    is_floor = operator in ("floor_divide.default", "floor_divide_.Tensor")
    floors = is_floor or node.kwargs.get("rounding_mode") == "floor"
    return floors and _dtype(node).is_floating_point and hasattr(node.args[1], "meta")


def _floor_division(x: Any, y: Any, *, rounding_mode: str = "floor") -> Any:
    import torch

    x, y = _in_common_type(x, y)
    return torch.where(y == 0, x / y, torch.div(x, y, rounding_mode=rounding_mode))


def _in_common_type(x: Any, y: Any) -> tuple[Any, Any]:
    import torch

    dtype = torch.result_type(x, y)
    return tuple(v.to(dtype) if isinstance(v, torch.Tensor) else v for v in (x, y))  # type: ignore[return-value]


def _has_two_types(node: Node) -> bool:
    values = [source.meta["val"] for source in node.all_input_nodes]
    return len({value.dtype for value in values if hasattr(value, "dtype")}) > 1


def _of_common_type(operator: str) -> Callable[..., Any]:
    def function(x: Any, y: Any) -> Any:
        return _call(operator)(*_in_common_type(x, y))

    return function


def _of_widest_type(operator: str) -> Callable[..., Any]:
    """A function of tensors in the widest of their types, whose result has the first one's."""

    def function(x: Any, *rest: Any) -> Any:
        import functools

        import torch

        tensors = [value for value in (x, *rest) if isinstance(value, torch.Tensor)]
        dtype = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
        given = (v.to(dtype) if isinstance(v, torch.Tensor) else v for v in (x, *rest))
        return _call(operator)(*given).to(x.dtype)

    return function


def _of_first_type(operator: str) -> Callable[..., Any]:
    """A function that takes its second tensor in the type of its first one."""

    def function(x: Any, y: Any, *rest: Any, **kwargs: Any) -> Any:
        return _call(operator)(x, y.to(x.dtype), *rest, **kwargs)

    return function


def _joined(operator: str) -> Callable[..., Any]:
    def function(tensors: list[Any], *rest: Any) -> Any:
        return _call(operator)(_all_in_common_type(tensors), *rest)

    return function


def _gives_half_of_exponent(node: Node) -> bool:
    return _gives_half(node) and not node.args[1].meta["val"].is_floating_point()


def _chooses_of_two(node: Node) -> bool:
    """Tells whether the kernel has no common type of what is chosen from, or another one."""
    import torch

    x, y = (source.meta["val"].dtype for source in node.args[1:3])
    # For the kernel a number without dimensions counts as much as a tensor.
    return x != y and (_gives_half(node) or torch.promote_types(x, y) != _dtype(node))


def _where(condition: Any, x: Any, y: Any) -> Any:
    import torch

    return torch.where(condition, *_in_common_type(x, y))


def _ldexp(x: Any, exponent: Any) -> Any:
    return (x.float() * 2.0**exponent).to(x.dtype)


def _all_in_common_type(tensors: list[Any]) -> list[Any]:
    import functools

    import torch

    dtype = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    return [tensor.to(dtype) for tensor in tensors]


def _cat_of_common_type(tensors: list[Any], dim: int = 0) -> Any:
    import torch

    return torch.cat(_all_in_common_type(tensors), dim)


# Interpolation with factors, which are the last argument.
_RESIZING = (
    "_upsample_bilinear2d_aa.vec",
    "upsample_bilinear2d.vec",
    "upsample_linear1d.vec",
    "upsample_nearest2d.vec",
    "upsample_trilinear3d.vec",
)


def _factors(x: Any, factors: Sequence[float]) -> list[float]:
    """Factors of a resizing, 1 for dimensions whose sizes stay."""
    sizes = zip(x.shape[2:], factors, strict=True)
    return [1.0 if type(n) is int and int(n * factor) == n else factor for n, factor in sizes]


def _keeps_a_size(node: Node) -> bool:
    """Tells whether a resizing by a factor leaves a dimension as large as it is."""
    *_, factors = node.args
    if not isinstance(factors, list | tuple):
        return False
    return _factors(node.args[0].meta["val"], factors) != list(factors)


def _resized(operator: str) -> Callable[..., Any]:
    def function(x: Any, *args: Any) -> Any:
        *rest, factors = args
        return _call(operator)(x, *rest, _factors(x, factors))

    return function


def _adds_booleans(node: Node) -> bool:
    import torch

    return _dtype(node) == torch.bool and "alpha" in node.kwargs


def _index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any) -> Any:
    return x.index_add(dim, index, (source * alpha).to(x.dtype))


def _has_other_number(node: Node) -> bool:
    """Tells whether bytes are computed with a number that is none of theirs."""
    import torch

    numbers = [value for value in (*node.args, *node.kwargs.values()) if type(value) is int]
    return _dtype(node) == torch.uint8 and any(not 0 <= number < 256 for number in numbers)


def _with_bytes(operator: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        def wrapped(value: Any) -> Any:
            return value % 256 if type(value) is int else value

        named = {name: wrapped(value) for name, value in kwargs.items()}
        return _call(operator)(*map(wrapped, args), **named)

    return function


def _shifts_far(node: Node) -> bool:
    """Tells whether the number of bits may be one that is not from 0 to those of the type."""
    import torch

    bits, dtype = node.args[1], _dtype(node)
    is_known = isinstance(bits, int) and 0 <= bits < 8 * dtype.itemsize
    is_whole = not dtype.is_floating_point and dtype != torch.bool
    return is_whole and not is_known and not isinstance(bits, float)


def _shift(operator: str) -> Callable[..., Any]:
    is_left = operator.startswith(("bitwise_left", "__lshift__"))

    def function(x: Any, bits: Any) -> Any:
        import torch

        dtype = torch.result_type(x, bits)
        largest = 8 * dtype.itemsize - 1
        x = x.to(dtype)
        # All bits are the sign's, or zeros.
        has_sign = dtype.is_signed and not is_left
        far = torch.bitwise_right_shift(x, largest) if has_sign else torch.zeros_like(x)
        if isinstance(bits, int):
            return far.clone()
        bits = bits.to(dtype)
        # Not `clamp`: a delegate's takes floats only.
        is_far = (bits < 0) | (bits > largest)
        shift = torch.bitwise_left_shift if is_left else torch.bitwise_right_shift
        near = shift(x, torch.where(is_far, 0, bits))
        return torch.where(is_far, far, near)

    return function


def _always(node: Node) -> bool:
    return True


def _reflection_pad(x: Any, padding: list[int]) -> Any:
    import torch

    for place in range(len(padding) // 2):
        dim, (before, after) = x.dim() - 1 - place, padding[2 * place : 2 * place + 2]
        size = x.shape[dim]
        parts = [x]
        if before > 0:
            parts.insert(0, x.narrow(dim, 1, before).flip(dim))
        if after > 0:
            parts.append(x.narrow(dim, size - 1 - after, after).flip(dim))
        x = torch.cat(parts, dim) if len(parts) > 1 else x
        if before < 0 or after < 0:
            x = x.narrow(dim, max(-before, 0), x.shape[dim] - max(-before, 0) - max(-after, 0))
    return x


def _reflects(node: Node) -> bool:
    return bool(_argument(node, 2, "mode", "constant") == "reflect")


def _pad_by_reflections(x: Any, padding: list[int], mode: str, value: Any = None) -> Any:
    return _reflection_pad(x, padding)


def _is_whole_power(node: Node) -> bool:
    import torch

    exponent = _argument(node, 1, "exponent", 0)
    whole = not _dtype(node).is_floating_point and _dtype(node) != torch.bool
    return whole and (not isinstance(exponent, int) or exponent > 1)


def _integer_power(x: Any, exponent: Any) -> Any:
    """A product of the squares that the exponent's binary digits select, which wraps as eager's."""
    import torch

    if isinstance(exponent, int):
        return _known_power(x, exponent)
    dtype = torch.result_type(x, exponent)
    x = torch.full((), _wrapped(x, dtype), dtype=dtype) if isinstance(x, int) else x.to(dtype)
    exponent, has_inverse = exponent.to(dtype), x.abs() == 1
    # From 2 ** 64 on all but odd numbers wrap to 0, and of those 1 and -1 matter.
    digits = torch.where(exponent > 127, 126 + (exponent & 1), exponent)
    result = torch.where((digits & 1) == 1, x, 1)
    for place in range(1, 7):
        x = x * x
        result = torch.where((digits & (1 << place)) != 0, result * x, result)
    return torch.where((exponent >= 0) | has_inverse, result, 0)


def _wrapped(number: int, dtype: Any) -> int:
    """The number of a type of whole numbers that has the same last bits."""
    import torch

    limits = torch.iinfo(dtype)
    return (number - limits.min) % 2**limits.bits + limits.min


def _known_power(x: Any, exponent: int) -> Any:
    result = None
    while exponent:
        if exponent & 1:
            result = x if result is None else result * x
        exponent >>= 1
        x = x * x if exponent else x
    return result


def _other_index(node: Node) -> bool:
    import torch

    index = _argument(node, 2, "index", None)
    return index.meta["val"].dtype != torch.int64


def _wide_index(operator: str) -> Callable[..., Any]:
    def function(x: Any, dim: int, index: Any, *rest: Any, **kwargs: Any) -> Any:
        import torch

        return _call(operator)(x, dim, index.to(torch.int64), *rest, **kwargs)

    return function


def _max_pool_backward(
    gradient: Any,
    x: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Any,
) -> Any:
    import torch

    flat = [*x.shape[:-2], x.shape[-2] * x.shape[-1]]
    places, values = indices.flatten(-2), gradient.flatten(-2)
    return torch.zeros(flat, dtype=x.dtype).scatter_add(-1, places, values).view(x.shape)


def _cuts_off(node: Node) -> bool:
    import torch

    mode = _argument(node, 2, "mode", "constant")
    amounts = [n for n in _argument(node, 1, "pad", ()) if isinstance(n, int)]
    is_number = str(node.target).startswith("aten.constant_pad_nd") or mode == "constant"
    is_mended = is_number or mode == "replicate"
    return is_mended and min(amounts, default=0) < 0 and isinstance(node.meta["val"], torch.Tensor)


def _folds_padding(node: Node) -> bool:
    """Tells whether what windows were taken of had a padding, which is cut off in the end."""
    return any(node.args[4])  # type: ignore[arg-type]


def _fold(
    x: Any, sizes: list[int], kernel: Any, dilation: Any, padding: list[int], stride: Any
) -> Any:
    import torch

    padded = [size + 2 * amount for size, amount in zip(sizes, padding, strict=True)]
    whole = torch.ops.aten.col2im.default(x, padded, kernel, dilation, [0, 0], stride)
    for dim, size, amount in zip((-2, -1), sizes, padding, strict=True):
        whole = whole.narrow(dim, amount, size)
    return whole.clone()


def _pads_nothing(node: Node) -> bool:
    """Tells whether a tensor without elements is padded with a number."""
    sizes = node.args[0].meta["val"].shape
    is_constant = _argument(node, 2, "mode", "constant") == "constant"
    is_empty = any(isinstance(size, int) and size == 0 for size in sizes)
    return is_empty and (str(node.target).startswith("aten.constant_pad_nd") or is_constant)


def _shuffles_nothing(node: Node) -> bool:
    sizes = node.args[0].meta["val"].shape
    return any(isinstance(size, int) and size == 0 for size in sizes)


def _unshuffled(x: Any, factor: int) -> Any:
    """As eager has it, which leaves the shape of a tensor without elements."""
    return x.clone()


def _padding(x: Any, pad: list[int], *rest: Any, **kwargs: Any) -> Any:
    import torch

    mode = kwargs.get("mode", rest[0] if rest and isinstance(rest[0], str) else "constant")
    if mode != "constant":
        # What is padded may be what is cut off.
        x = torch.nn.functional.pad(x, [max(amount, 0) for amount in pad], mode)
        return _cut(x, pad).clone()
    value = kwargs.get("value", rest[-1] if rest and not isinstance(rest[-1], str) else 0) or 0
    around = [sum(pad[2 * place : 2 * place + 2]) for place in range(len(pad) // 2)]
    shape = [*x.shape[: x.dim() - len(around)]]
    shape += [size + more for size, more in zip(x.shape[len(shape) :], around[::-1], strict=True)]
    x = _cut(x, pad)
    if any(isinstance(size, int) and size == 0 for size in (*x.shape, *shape)):
        return torch.full(shape, value, dtype=x.dtype)
    amounts = [max(amount, 0) for amount in pad]
    return torch.constant_pad_nd(x, amounts, value) if any(amounts) else x.clone()


def _cut(x: Any, pad: Sequence[int]) -> Any:
    """A tensor without the elements that negative amounts of a padding cut off."""
    for place in range(len(pad) // 2):
        before, after = (-min(amount, 0) for amount in pad[2 * place : 2 * place + 2])
        if before or after:
            dim = x.dim() - 1 - place
            x = x.narrow(dim, before, x.shape[dim] - before - after)
    return x


def _pads_around(node: Node) -> bool:
    is_circular = _argument(node, 2, "mode", "constant") == "circular"
    return is_circular and min(node.args[1]) >= 0  # type: ignore[arg-type]


def _padded_around(x: Any, amounts: list[int], mode: str = "", value: Any = None) -> Any:
    import torch

    for place, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
        dim = x.dim() - 1 - place
        size = x.shape[dim]
        parts = [x.narrow(dim, size - before, before)] if before else []
        parts += [x, x.narrow(dim, 0, after)] if after else [x]
        x = torch.cat(parts, dim) if len(parts) > 1 else x
    return x


def _pads_unevenly(node: Node) -> bool:
    """Tells whether a number is added before a dimension more or less often than behind it."""
    pad = _argument(node, 1, "pad", ())
    is_constant = str(node.target).startswith("aten.constant_pad_nd")
    if not is_constant and _argument(node, 2, "mode", "constant") != "constant":
        return False
    pairs = zip(pad[::2], pad[1::2], strict=True)
    return all(isinstance(n, int) and n >= 0 for n in pad) and any(a != b for a, b in pairs)


def _even_padding(x: Any, pad: list[int], *rest: Any, **kwargs: Any) -> Any:
    import torch

    value = kwargs.get("value", rest[-1] if rest and not isinstance(rest[-1], str) else 0) or 0
    if value:
        for place in range(len(pad) // 2):
            dim = x.dim() - 1 - place
            sizes = [[n if d == dim else size for d, size in enumerate(x.shape)] for n in pad]
            sides = [torch.full(sizes[2 * place + n], value, dtype=x.dtype) for n in range(2)]
            x = torch.cat([side for side in (sides[0], x, sides[1]) if side.shape[dim]], dim)
        return x
    most = [max(pair) for pair in zip(pad[::2], pad[1::2], strict=True)]
    shape = list(x.shape)
    x = torch.constant_pad_nd(x, [amount for amount in most for _ in range(2)], value)
    for place, amount in enumerate(most):
        before, after = pad[2 * place : 2 * place + 2]
        if before != after:
            dim = len(shape) - 1 - place
            x = x.narrow(dim, amount - before, shape[dim] + before + after)
    return x


def _is_plain_einsum(node: Node) -> bool:
    """Tells whether an einsum is a product of two tensors, each label of which goes somewhere."""
    equation, operands = node.args[:2]
    if len(operands) != 2 or "->" not in equation:  # type: ignore[arg-type, operator]
        return False
    a, b, out = _labels(equation, [each.meta["val"].dim() for each in operands])  # type: ignore
    single = [label for label in a + b if (label in a) != (label in b)]
    is_simple = all(len(set(labels)) == len(labels) for labels in (a, b, out))
    sizes: dict[str, Any] = {}
    for labels, value in zip((a, b), operands, strict=True):  # type: ignore[arg-type]
        for label, size in zip(labels, value.meta["val"].shape, strict=True):
            if not isinstance(size, int) or sizes.setdefault(label, size) != size:
                return False
    return is_simple and all(label in out for label in single) and bool(set(a) & set(b) - set(out))


def _labels(equation: str, ranks: Sequence[int]) -> list[str]:
    """The labels of an equation's parts, with some for each "..." that it has."""
    parts = equation.replace(" ", "").replace("->", ",").split(",")
    counts = [rank - len(part) + 3 for rank, part in zip(ranks, parts, strict=False)]
    count = max((n for n, part in zip(counts, parts, strict=False) if "." in part), default=0)
    free = [letter for letter in string.ascii_letters if letter not in equation][:count]
    of_parts = [*counts, count]
    return [
        p.replace("...", "".join(free[count - n :])) for p, n in zip(parts, of_parts, strict=True)
    ]


def _einsum(equation: str, operands: Sequence[Any], **kwargs: Any) -> Any:
    import torch

    x, y = operands
    a, b, out = _labels(equation, [x.dim(), y.dim()])
    size = dict(zip(a + b, (*x.shape, *y.shape), strict=True))
    batch = [label for label in out if label in a and label in b]
    rows, columns = ([c for c in out if c in one and c not in two] for one, two in ((a, b), (b, a)))
    inner = [label for label in a if label in b and label not in out]

    def laid_out(value: Any, labels: str, *groups: Sequence[str]) -> Any:
        order = [labels.index(label) for group in (batch, *groups) for label in group]
        value = value if order == sorted(order) else value.permute(order)
        shape = [size[c] for c in batch] + [math.prod(size[c] for c in g) for g in groups]
        return value if list(value.shape) == shape else value.reshape(shape)

    product = torch.matmul(laid_out(x, a, rows, inner), laid_out(y, b, inner, columns))
    labels = [*batch, *rows, *columns]
    shape = [size[label] for label in labels]
    product = product if list(product.shape) == shape else product.reshape(shape)
    order = [labels.index(label) for label in out]
    return product if order == sorted(order) else product.permute(order)


def _has_sum_factor(node: Node) -> bool:
    return bool(_argument(node, 2, "alpha", 1) != 1)


def _sum_with(operator: str) -> Callable[..., Any]:
    def function(x: Any, y: Any, alpha: Any = 1) -> Any:
        if operator.startswith("rsub"):
            return y - x * alpha
        return x + y * alpha if operator.startswith("add") else x - y * alpha

    return function


def _is_norm_of_several(node: Node) -> bool:
    return len(node.args[1]) > 1  # type: ignore[arg-type]


def _norm_of_one(x: Any, shape: Any, weight: Any = None, eps: Any = None) -> Any:
    """A norm over several dimensions, as one over a dimension that has all of them."""
    first = x.dim() - len(shape)
    flat = x.flatten(first)
    weight = None if weight is None else weight.flatten()
    norm = _call("rms_norm.default")(flat, [flat.shape[-1]], weight, eps)
    return norm.reshape(x.shape)


def _is_masked(node: Node) -> bool:
    """Tells whether attention has a mask, which may hide rows entirely."""
    return _argument(node, 3, "attn_mask", None) is not None


def _without_hidden_rows(
    x: Any, keys: Any, values: Any, attn_mask: Any, *rest: Any, **named: Any
) -> Any:
    """Attention that is zero where a mask hides all, whatever a softmax makes of that."""
    import torch

    result = _with_heads(x, keys, values, attn_mask, *rest, **named)
    if attn_mask.dtype == torch.bool:
        return result * torch.amax(attn_mask.to(x.dtype), -1, keepdim=True)
    return torch.where(torch.all(torch.isinf(attn_mask), -1, keepdim=True), 0.0, result)


def _has_no_heads(node: Node) -> bool:
    return bool(node.args[0].meta["val"].dim() < _HEADS)  # type: ignore[union-attr]


def _with_heads(x: Any, keys: Any, values: Any, *rest: Any, **named: Any) -> Any:
    """Attention of four dimensions, the first of which have one element."""
    import torch

    given = [x, keys, values]
    for _ in range(_HEADS - x.dim()):
        given = [torch.unsqueeze(each, 0) for each in given]
    result = _call("scaled_dot_product_attention.default")(*given, *rest, **named)
    for _ in range(_HEADS - x.dim()):
        result = torch.squeeze(result, 0)
    return result


def _views_attention(node: Node) -> bool:
    """Tells whether a view is of attention that has been decomposed, and lies otherwise then."""
    import torch

    source, shape = node.args[0], node.args[0].meta["val"].shape
    while _is_elementwise(source, shape):
        source = source.all_input_nodes[0]
    if not str(source.target).startswith("aten.scaled_dot_product_attention") or len(shape) != 4:
        return False
    if not all(isinstance(size, int) for size in (*shape, *node.meta["val"].shape)):
        return True
    decomposed = torch.empty([shape[dim] for dim in (2, 0, 1, 3)], device="meta")
    try:
        decomposed.permute(1, 2, 0, 3).view(node.meta["val"].shape)
    except RuntimeError:
        return True
    return False


def _is_elementwise(node: Node, shape: Any) -> bool:
    sources = node.all_input_nodes
    keeps = node.op == "call_function" and len(sources) > 0 and _shape(sources[0]) == shape
    return keeps and "attention" not in str(node.target)


def _shape(node: Node) -> Any:
    return getattr(node.meta.get("val"), "shape", None)


def _of_copied_rows(operator: str) -> Callable[..., Any]:
    def function(x: Any, *rest: Any, **kwargs: Any) -> Any:
        import torch

        rows = x.clone(memory_format=torch.contiguous_format)
        return _call(operator)(rows, *rest, **kwargs)

    return function


def has_channels_last(tensor: Any) -> bool:
    """Tells whether a tensor's channels lie last in memory, and its elements not in rows."""
    import torch

    last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return last and not tensor.is_contiguous()


def _takes_channels_last(node: Node) -> bool:
    return has_channels_last(node.args[0].meta["val"])


def _has_other_weights(node: Node) -> bool:
    x, weight = (source.meta["val"] for source in node.args[:2])
    return x.dim() == 4 and has_channels_last(weight) and not has_channels_last(x)


def _has_other_order(node: Node) -> bool:
    values = (source.meta["val"] for source in node.all_input_nodes)
    return any(hasattr(value, "shape") and not value.is_contiguous() for value in values)


def _all_in_rows(operator: str) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        return _call(operator)(*(v.contiguous() if hasattr(v, "shape") else v for v in args))

    return function


def _in_weights_order(operator: str) -> Callable[..., Any]:
    def function(x: Any, weight: Any, *rest: Any, **kwargs: Any) -> Any:
        import torch

        last = x.contiguous(memory_format=torch.channels_last)
        if has_channels_last(last):
            return _call(operator)(last, weight, *rest, **kwargs)
        return _call(operator)(x, weight.contiguous(), *rest, **kwargs)

    return function


def _in_rows(operator: str) -> Callable[..., Any]:
    def function(x: Any, *rest: Any, **kwargs: Any) -> Any:
        return _call(operator)(x.contiguous(), *rest, **kwargs)

    return function


def _call(operator: str) -> Any:
    """An operator of ATen's by its name: "gather.default"."""
    import torch

    packet, _, overload = operator.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def _does_not_wait(node: Node) -> bool:
    return _flag(node, "non_blocking") is True


def _flag(node: Node, name: str) -> Any:
    names = [argument.name for argument in node.target._schema.arguments]
    return _argument(node, names.index(name), name, None) if name in names else None


def _waiting(operator: str) -> Callable[..., Any]:
    return _with_flag(operator, non_blocking=False)


def _with_flag(operator: str, **flag: Any) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        call = _call(operator)
        names = [argument.name for argument in call._schema.arguments]
        given = {**dict(zip(names, args, strict=False)), **kwargs, **flag}
        positional = [given.pop(a.name) for a in call._schema.arguments[: len(args)]]
        return call(*positional, **given)

    return function


def _has_two_orders(node: Node) -> bool:
    """Tells whether a copy has its channels last, and rows first as well, or five dimensions."""
    import torch

    value, order = node.meta["val"], _flag(node, "memory_format")
    if order == torch.channels_last_3d:
        return True
    return order == torch.channels_last and value.dim() == 4 and value.is_contiguous()


def _rows_first(operator: str) -> Callable[..., Any]:
    def function(x: Any, *rest: Any, **kwargs: Any) -> Any:
        import torch

        keeps = operator == "contiguous.default" or kwargs.get("dtype") == x.dtype
        if keeps and x.is_contiguous():
            # A copy would be dropped by a delegate, which fails if it is left with nothing.
            return x.view(x.shape)
        return _with_flag(operator, memory_format=torch.contiguous_format)(x, *rest, **kwargs)

    return function


def _has_ones(node: Node) -> bool:
    shape = list(node.meta["val"].shape)
    if 1 not in shape or set(shape) == {1}:
        return False
    return len(shape) > 4 or _moves_ones_only(node)


def _moves_ones_only(node: Node) -> bool:
    shape, order = node.args[0].meta["val"].shape, _order_of(node)  # type: ignore[union-attr]
    others = [dim for dim in order if shape[dim] != 1]
    return order != sorted(order) and others == sorted(others)


def _order_of(node: Node) -> list[int]:
    rank = node.args[0].meta["val"].dim()  # type: ignore[union-attr]
    if str(node.target).startswith("aten.permute"):
        return [dim % rank for dim in node.args[1]]  # type: ignore[union-attr, operator]
    order = list(range(rank))
    first, second = node.args[1:3]
    order[first], order[second] = order[second], order[first]  # type: ignore[index]
    return order


def _permute_without_ones(x: Any, dims: Sequence[int]) -> Any:
    order = [dim % x.dim() for dim in dims]
    others = [dim for dim in order if x.shape[dim] != 1]
    if others == sorted(others):
        return x.reshape([x.shape[dim] for dim in order])
    places = {dim: place for place, dim in enumerate(sorted(others))}
    small = x.reshape([x.shape[dim] for dim in sorted(others)])
    return small.permute([places[dim] for dim in others]).reshape([x.shape[d] for d in order])


def _transpose_without_ones(x: Any, first: int, second: int) -> Any:
    order = list(range(x.dim()))
    order[first], order[second] = order[second], order[first]
    return _permute_without_ones(x, order)


def _is_of_all(node: Node) -> bool:
    return _is_scalar(node) and not _has_no_dimension(node)


def _of_one_dimension(operator: str) -> Callable[..., Any]:
    def function(x: Any, *rest: Any, **kwargs: Any) -> Any:
        return _call(operator)(x.reshape(1, -1), 1).reshape(())

    return function


def _is_scalar(node: Node) -> bool:
    return node.meta["val"].dim() == 0


def _scalar_sum(x: Any, dim: int, *, dtype: Any = None) -> Any:
    import torch

    whole = torch.int64 if not x.is_floating_point() else x.dtype
    return x.to(dtype or whole).clone()


def _has_no_dimension(node: Node) -> bool:
    return node.args[0].meta["val"].dim() == 0


def _sum_of_scalar(x: Any, dim: Any, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _scalar_sum(x, 0, dtype=dtype)


def _gives_half(node: Node) -> bool:
    import torch

    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)


def _gives_half_of_numbers(node: Node) -> bool:
    """Tells whether a 16-bit number and one of the model are the only operands."""
    has_number = any(type(value) in (int, float) for value in node.args)
    return has_number and _gives_half(node) and node.meta["val"].dim() == 0


def _has_lost_number(node: Node) -> bool:
    """Tells whether a 16-bit float is beside a number that it holds as infinity or inexactly."""
    import torch

    if _dtype(node) != torch.float16:
        return False
    limits = torch.finfo(torch.float16)
    numbers = [abs(value) for value in node.args if type(value) in (int, float)]
    finite = [number for number in numbers if math.isfinite(number)]
    small = [number for number in finite if number < limits.tiny]
    return any(number > limits.max for number in finite) or any(
        _rounded(number, torch.float16) != number for number in small
    )


def _rounded(number: float, dtype: Any) -> float:
    """The number in a type, beyond whose largest it is infinite."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        return float(torch.tensor(float(number)).to(dtype).item())


def _compares_half(node: Node) -> bool:
    import torch

    x, number = node.args
    dtype = x.meta["val"].dtype
    is_half = dtype in (torch.float16, torch.bfloat16)
    return is_half and type(number) in (int, float) and _rounded(number, dtype) != number


def _with_rounded(operator: str) -> Callable[..., Any]:
    def function(x: Any, number: float) -> Any:
        return _call(operator)(x, _rounded(number, x.dtype))

    return function


def _in_single(operator: str) -> Callable[..., Any]:
    """A function that computes in 32 bits, as the eager kernels do, and rounds its result."""

    def function(*args: Any, **kwargs: Any) -> Any:
        import torch

        halves = (torch.float16, torch.bfloat16)
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        dtype = next(value.dtype for value in tensors if value.dtype in halves)
        given = [
            value.float() if isinstance(value, torch.Tensor) and value.dtype in halves else value
            for value in args
        ]
        return _call(operator)(*given, **kwargs).to(dtype)

    return function


def _narrow(x: Any, dim: int, start: int, length: int) -> Any:
    return x.narrow(dim, start, length).clone()


def _permute_of_scalar(x: Any, dims: Any) -> Any:
    return x.clone()


def _unfold_of_scalar(x: Any, dimension: int, size: int, step: int) -> Any:
    return x.reshape(1)[:size].clone()


def _is_mixed(node: Node) -> bool:
    """Tells whether the first operand has whole numbers, and the second is a fraction."""
    first, second = (_argument(node, place, name, None) for place, name in ((0, ""), (1, "other")))
    value = getattr(first, "meta", {}).get("val")
    is_fraction = isinstance(second, float) or isinstance(node.kwargs.get("alpha"), float)
    return is_fraction and value is not None and not value.dtype.is_floating_point


def _in_floats(operator: str) -> Callable[..., Any]:
    def function(x: Any, other: Any, *rest: Any, **kwargs: Any) -> Any:
        import torch

        return _call(operator)(x.to(torch.result_type(x, other)), other, *rest, **kwargs)

    return function


def _has_fraction_as_bound(node: Node) -> bool:
    x = node.args[0].meta["val"]
    is_whole = not x.dtype.is_floating_point and not x.dtype.is_complex
    return is_whole and _dtype(node).is_floating_point


def _bounded(operator: str) -> Callable[..., Any]:
    def function(x: Any, *bounds: Any, **named: Any) -> Any:
        import torch

        # A number that is a fraction gives whole numbers the default type.
        return _call(operator)(x.to(torch.get_default_dtype()), *bounds, **named)

    return function


# Of operators that write into their first tensor.
_OTHER_OVERLOADS = {
    "floor_divide_.Tensor": "floor_divide.default",
    "pow_.Scalar": "pow.Tensor_Scalar",
    "pow_.Tensor": "pow.Tensor_Tensor",
}
_BOUNDED = ("clamp.default", "clamp_max.default", "clamp_min.default", "clip.default")
_BINARY = ("add.Tensor", "div.Tensor", "mul.Tensor", "sub.Tensor")
_MADE_OF_REMAINDERS = (
    *("cosine_embedding_loss.default", "margin_ranking_loss.default", "pairwise_distance.default"),
    *("poisson_nll_loss.default", "take_along_dim.default", "triplet_margin_loss.default"),
    # Other names of operators.
    *("concat.default", "concatenate.default", "multiply.Scalar", "multiply.Tensor"),
    *("divide.Scalar", "divide.Scalar_mode", "divide.Tensor", "divide.Tensor_mode"),
    *("subtract.Scalar", "subtract.Tensor", "true_divide.Scalar", "true_divide.Tensor"),
    *("divide_.Scalar_mode", "divide_.Tensor_mode", "multiply_.Scalar", "multiply_.Tensor"),
    *("subtract_.Scalar", "subtract_.Tensor"),
)
_MADE_OF_NORMS = (
    *("cosine_embedding_loss.default", "cosine_similarity.default", "dist.default"),
    *("frobenius_norm.dim", "linalg_matrix_norm.default", "linalg_matrix_norm.str_ord"),
    *("linalg_norm.default", "linalg_norm.ord_str"),
    *("pairwise_distance.default", "renorm.default", "triplet_margin_loss.default"),
)
# They are made of operators of which these rules change some.
_COMPOSITES = {"half_range": _MADE_OF_NORMS, "integer_remainder": _MADE_OF_REMAINDERS}
_COMPARISONS = tuple(f"{name}.Scalar" for name in ("eq", "ge", "gt", "le", "lt", "ne"))
_COPIES = ("_to_copy.default", "to.device", "to.dtype", "to.dtype_layout", "to.other")
_MAKERS = tuple(f"{name}_like.default" for name in ("empty", "full", "ones", "zeros"))
_HALVES = ("angle.default", "i0.default", "native_dropout_backward.default")
_INDEXED = ("gather.default", "scatter.src", "scatter.value", "scatter_add.default")
# torch's decompositions of them copy to strides, for which there is no kernel.
_OF_STRIDES = (*("index_fill.int_Scalar", "index_fill.int_Tensor", "lerp.Scalar", "lerp.Tensor"),)
# Delegates that take them with the channels last compute something else, or there are none.
_OF_ROWS = (
    *("argmax.default", "argmin.default", "cumsum.default", "flip.default", "gather.default"),
    *("group_norm.default", "layer_norm.default", "log_softmax.int", "pixel_shuffle.default"),
    *("pixel_unshuffle.default", "softmax.int"),
)
_CONVOLUTIONS = (
    *("conv2d.default", "conv2d.padding", "conv_transpose2d.input", "convolution.default"),
)
_JOINING = tuple(
    f"{name}.default" for name in ("block_diag", "column_stack", "dstack", "hstack", "vstack")
)
_LOSSES = ("huber_loss.default", "soft_margin_loss.default")
_LIKE_FIRST = ("diagonal_scatter.default", "select_scatter.default", "slice_scatter.default")
_NORMS = (
    *("batch_norm.default", "group_norm.default", "instance_norm.default", "layer_norm.default"),
    "rms_norm.default",
)
_MIXED = ("add.Scalar", "add.Tensor", "rsub.Scalar", "sub.Scalar", "sub.Tensor")
_PADDINGS = ("constant_pad_nd.default", "pad.default")
_OF_BYTES = (
    *("add.Scalar", "add.Tensor", "div.Scalar_mode", "div.Tensor_mode", "fmod.Scalar"),
    *("floor_divide.Scalar", "floor_divide.default", "mul.Scalar", "mul.Tensor", "rsub.Scalar"),
    *("rsub.Tensor", "sub.Scalar", "sub.Tensor"),
)
_OF_ONE_TYPE = (
    *("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "fmod.Tensor"),
    "remainder.Tensor",
)
_POWERS = ("pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor")
_PRODUCTS = (
    *("div.Scalar", "div.Scalar_mode", "div.Tensor", "div.Tensor_mode", "floor_divide.Scalar"),
    *("floor_divide.default", "mul.Scalar", "mul.Tensor"),
)
_REFLECTIONS = tuple(f"reflection_pad{n}d.default" for n in (1, 2, 3))
_REMAINDERS = ("remainder.Scalar", "remainder.Tensor")
_HEADS = 4
_VIEWS = ("flatten.using_ints", "reshape.default", "unflatten.int", "view.default")
_SHIFTS = (
    *("__lshift__.Scalar", "__lshift__.Tensor", "__rshift__.Scalar", "__rshift__.Tensor"),
    *("bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar"),
    *("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar"),
)

RULES: Mapping[str, tuple[_Rule, ...]] = {
    "addmm": (_Rule(("addmm.default",), _has_factors, _addmm),),
    "attention_heads": (
        _Rule(("scaled_dot_product_attention.default",), _has_no_heads, _with_heads, whole=True),
    ),
    "attention_view": tuple(
        _Rule((name,), _views_attention, _of_copied_rows(name)) for name in _VIEWS
    ),
    "byte_numbers": tuple(
        _Rule((name,), _has_other_number, _with_bytes(name)) for name in _OF_BYTES
    ),
    "channels_last": (
        *(_Rule((name,), _takes_channels_last, _in_rows(name)) for name in _OF_ROWS),
        *(_Rule((name,), _has_other_order, _all_in_rows(name)) for name in _OF_STRIDES),
    ),
    "circular_padding": (_Rule(("pad.default",), _pads_around, _padded_around),),
    "double_remainder": (_Rule(_REMAINDERS, _is_double, _remainder),),
    "einsum": (_Rule(("einsum.default",), _is_plain_einsum, _einsum),),
    "elu": (
        _Rule(("elu.default",), _has_scales, _elu),
        _Rule(("celu.default",), _always, _celu),
        _Rule(("selu.default",), _always, _selu),
    ),
    "empty_padding": (
        _Rule(_PADDINGS, _pads_nothing, _padding),
        _Rule(("pixel_unshuffle.default",), _shuffles_nothing, _unshuffled),
    ),
    "even_windows": (
        _Rule(("avg_pool2d.default",), _has_even_windows, _halved),
        _Rule(("adaptive_avg_pool2d.default",), _has_even_windows, _adaptively_halved),
    ),
    "floor_division": (
        _Rule(("div.Tensor_mode", "floor_divide.default"), _may_floor_zero, _floor_division),
    ),
    "gelu": (_Rule(("gelu.default",), _is_unquantized_tanh, _gelu),),
    "half_comparison": tuple(
        _Rule((name,), _compares_half, _with_rounded(name)) for name in _COMPARISONS
    ),
    "half_number": tuple(_Rule((name,), _has_lost_number, _in_single(name)) for name in _PRODUCTS),
    "half_range": (
        _Rule(("erfc.default", "special_erfc.default"), _always, ranges.erfc),
        _Rule(("linalg_vector_norm.default",), _is_norm, ranges.norm),
        _Rule(("norm.Scalar", "norm.ScalarOpt_dim"), _is_norm, ranges.norm),
        _Rule(("mish.default",), _always, ranges.mish),
        _Rule(("pow.Scalar",), _is_positive, ranges.power_of_number),
        _Rule(("softplus.default",), _always, ranges.softplus),
    ),
    "half_result": (
        *(_Rule((name,), _gives_half, _in_single(name)) for name in _HALVES),
        *(_Rule((name,), _gives_half_of_numbers, _in_single(name)) for name in _BINARY),
    ),
    "hard_sigmoid": (
        _Rule(("hardsigmoid.default",), _is_apart, _hard_sigmoid),
        _Rule(("hardswish.default",), _is_apart, _hard_swish),
    ),
    "hidden_rows": (
        _Rule(
            ("scaled_dot_product_attention.default",),
            _is_masked,
            _without_hidden_rows,
            whole=True,
        ),
    ),
    "hardtanh": (_Rule(("hardtanh.default",), _has_default_bound, _hardtanh),),
    "index_type": tuple(_Rule((name,), _other_index, _wide_index(name)) for name in _INDEXED),
    "instance_norm": (
        _Rule(("instance_norm.default",), _normalizes_pictures, _instance_norm, whole=True),
        _Rule(("instance_norm.default",), corners.has_statistics, corners.batch_norm, whole=True),
    ),
    "integer_power": (_Rule(_POWERS, _is_whole_power, _integer_power),),
    "integer_remainder": (_Rule(_REMAINDERS, _is_whole, _remainder),),
    "integer_shift": tuple(_Rule((name,), _shifts_far, _shift(name)) for name in _SHIFTS),
    "kept_size": tuple(
        _Rule((name,), _keeps_a_size, _resized(name), whole=True) for name in _RESIZING
    ),
    "max_pool_backward": (
        _Rule(("max_pool2d_with_indices_backward.default",), _always, _max_pool_backward),
    ),
    "mixed_types": (
        _Rule(("cat.default",), _has_two_types, _cat_of_common_type),
        *(_Rule((name,), _has_two_types, _of_common_type(name)) for name in _OF_ONE_TYPE),
        _Rule(("index_add.default",), _adds_booleans, _index_add),
        _Rule(("ldexp.Tensor",), _gives_half_of_exponent, _ldexp),
        _Rule(("where.self",), _chooses_of_two, _where),
        *(_Rule((name,), _has_two_types, _joined(name)) for name in _JOINING),
        *(_Rule((name,), _has_two_types, _of_first_type(name)) for name in _LIKE_FIRST),
        *(_Rule((name,), _has_two_types, _of_widest_type(name)) for name in (*_NORMS, *_LOSSES)),
    ),
    "narrow_copy": (_Rule(("narrow_copy.default",), _always, _narrow),),
    "negative_padding": (
        _Rule(_PADDINGS, _cuts_off, _padding),
        _Rule(("col2im.default",), _folds_padding, _fold),
    ),
    "non_blocking": tuple(_Rule((name,), _does_not_wait, _waiting(name)) for name in _COPIES),
    "norm_dimensions": (
        _Rule(("rms_norm.default",), _is_norm_of_several, _norm_of_one, whole=True),
    ),
    "number_remainder": (_Rule(("remainder.Scalar_Tensor",), _always, _remainder_of_number),),
    "one_order": tuple(
        _Rule((name,), _has_two_orders, _rows_first(name))
        for name in (*_COPIES, *_MAKERS, "clone.default", "contiguous.default")
    ),
    "padded_average": tuple(
        _Rule((f"avg_pool{rank}d.default",), _counts_padding, _padded_average(rank))
        for rank in (1, 2)
    ),
    "rank": (
        _Rule(("permute.default",), _has_ones, _permute_without_ones),
        _Rule(("transpose.int",), _has_ones, _transpose_without_ones),
    ),
    "reflection_pad": (
        _Rule(_REFLECTIONS, _always, _reflection_pad),
        _Rule(("pad.default",), _reflects, _pad_by_reflections),
    ),
    "scalar_shape": (
        _Rule(("permute.default", "permute_copy.default"), _has_no_dimension, _permute_of_scalar),
        _Rule(("unfold.default", "unfold_copy.default"), _has_no_dimension, _unfold_of_scalar),
    ),
    "scalar_sum": (
        _Rule(("cumsum.default",), _is_scalar, _scalar_sum),
        _Rule(("sum.dim_IntList",), _has_no_dimension, _sum_of_scalar),
    ),
    "scalar_type": (
        *(_Rule((name,), _is_mixed, _in_floats(name)) for name in _MIXED),
        *(_Rule((name,), _has_fraction_as_bound, _bounded(name)) for name in _BOUNDED),
    ),
    "sum_factor": tuple(
        _Rule((name,), _has_sum_factor, _sum_with(name))
        for name in ("add.Tensor", "rsub.Scalar", "rsub.Tensor", "sub.Tensor")
    ),
    "swish": (
        _Rule(("silu.default",), _is_apart_from_linear, _silu),
        _Rule(("mul.Tensor",), _is_swish, _product_apart),
    ),
    "single_any": tuple(
        _Rule(
            (f"{name}.default", f"{name}.dim", f"{name}.dims"),
            _is_of_all,
            _of_one_dimension(f"{name}.dim"),
        )
        for name in ("all", "any")
    ),
    "uneven_padding": (_Rule(_PADDINGS, _pads_unevenly, _even_padding),),
    "weight_order": tuple(
        _Rule((name,), _has_other_weights, _in_weights_order(name)) for name in _CONVOLUTIONS
    ),
    "zero_factor": (_Rule(("addmm.default",), _has_zero_factor, _addmm),),
    **{name: tuple(_Rule(*rule) for rule in rules) for name, rules in corners.RULES.items()},
}
