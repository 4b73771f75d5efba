"""The pass that writes operators out, by tracing what rules give for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import aten
from etbuild.exact.table import COMPOSITES, RULES

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node

# Of operators that write into their first tensor.
_OTHER_OVERLOADS = {
    "floor_divide_.Tensor": "floor_divide.default",
    "pow_.Scalar": "pow.Tensor_Scalar",
    "pow_.Tensor": "pow.Tensor_Tensor",
}


def write_out(*names: str) -> WriteOut:
    """A pass for `ExportRecipe.aten_transform_passes` that writes operators out as others.

    Args:
      names: of rules:
        "addmm": `torch.addmm` with factors, as a product and a sum.
        "antialiasing": antialiased resizing, as products with weights.
        "attention_heads": `scaled_dot_product_attention` of fewer than four dimensions, and that
          whose heads share values of another size than the keys'.
        "attention_view": views of `scaled_dot_product_attention` that join heads and rows.
        "boolean_number": bounds and slopes of floats that are booleans of Python's, as numbers.
        "boolean_power": powers of booleans by a whole number, which are whole numbers.
        "byte_numbers": arithmetic of bytes and numbers below 0 or above 255, which wrap.
        "channels_last": normalizations, `softmax`, `argmax`, `cumsum`, `flip`, `gather` and
          shuffled pixels of tensors whose channels lie last; `lerp` and `index_fill` of any that
          are not in rows.
        "circular_padding": circular padding, as parts that are joined.
        "computed_bias": layers whose bias follows from an input, as those without and a sum.
        "computed_weights": linear layers whose weights are computed or given, as products of
          matrices, before they are quantized.
        "counted_back": places of elements that may be below zero, which count from the end.
        "double_remainder": `%` of 64-bit floats.
        "einsum": `torch.einsum` of two tensors, as a product of matrices.
        "elu": ELU with factors, SELU and CELU, as sums and products of it.
        "empty_padding": padding and `pixel_unshuffle` of tensors without elements.
        "even_windows": averages over windows of even sizes side by side, as averages over 2 x 2
          and of those.
        "expm1": `torch.expm1`, ELU, CELU and SELU, by the hyperbolic tangent of a half.
        "first_number": sums of a single number and a tensor with a factor.
        "floor_division": `//` of floats by a tensor, in which there may be zeros, and of 16-bit
          floats by a single number, rounded down or towards zero.
        "gelu": GELU that is approximated by tanh, in programs that are not quantized: beside the
          noise of a quantization its difference of 5e-4 is nothing.
        "grouped_product": products of rows with the matrices of their groups, as those of experts.
        "half_comparison": comparisons of 16-bit floats with numbers that these do not hold.
        "half_guard": small numbers that keep a divisor from zero, as ones that 16-bit floats hold.
        "half_number": products and quotients of 16-bit floats and very large or small numbers.
        "half_quotient": quotients by fewer numbers, of which no reciprocal is too small.
        "half_range": softplus, mish, `erfc`, powers of a number and whole powers, in steps that
          stay within 65,504, and are right for numbers below 6e-5.
        "half_result": functions of 16-bit floats that upstream would give in 32 bits.
        "half_rms_norm": `rms_norm`, in steps as those of "half_root".
        "half_root": roots of sums of squares, norms and deviations, of numbers that are at most 1.
        "half_variance": variances, in steps as those of "half_root".
        "hard_sigmoid": hard sigmoid and hard swish that follow no layer, or not alone.
        "hardtanh": bounds of which one has its default, as those of `clamp`.
        "hidden_rows": `scaled_dot_product_attention` whose mask may hide all of a row, which is 0.
        "implicit_expansion": `expand` with `implicit`, as one without.
        "index_type": `gather` and `scatter` by indices that are not 64-bit integers.
        "integer_power": powers of whole numbers, also those beyond a double's 53 bits.
        "instance_norm": instance normalization of pictures, as group normalization.
        "integer_remainder": `%` of whole numbers, whose sign is the divisor's.
        "integer_shift": shifts of bits by less than 0, or by more than there are.
        "kept_size": resizing by factors that leave a dimension as large as it is, by 1 there.
        "log_softmax": as differences from the largest number and the logarithm of a sum.
        "many_dimensions": linear layers of more than four dimensions, as those of matrices.
        "max_pool_backward": the gradient of a maximum over windows.
        "mixed_types": remainders, operations on bits, joined tensors and normalizations of several
          types, what compares a tensor with a single number of another type, and multiples of
          booleans that are added by index.
        "narrow_copy": copies of a part, as a slice and a copy.
        "negative_padding": padding that cuts off, as slices, and that of what `fold` gives.
        "negative_power": powers by numbers below zero, and norms of such orders, as reciprocals.
        "no_batch": linear layers, convolutions and pooling without a dimension for the batch, as
          those of a batch of one.
        "no_dimension": reductions over an empty list of dimensions, as those over all.
        "no_elements": pooling, `log_softmax`, `amax`, `cumprod` and others whose result has no
          elements, as zeros.
        "non_blocking": copies that do not wait, as those that do.
        "norm_order": norms of orders other than 1 and 2, as sums of powers and extremes.
        "norm_dimensions": `rms_norm` over several dimensions, as one over all of them at once.
        "number_factor": sums and differences of a tensor and a number that has a factor.
        "number_remainder": `%` of a number by a tensor.
        "one_loss": `multi_margin_loss` of one row without a batch, not reduced.
        "one_place": places of the extreme of all numbers that keep dimensions, as places in a row.
        "one_order": copies with the channels last that have rows first as well or have five
          dimensions, with rows first.
        "padded_average": averages over windows whose padding counts, as a padding and averages.
        "product_batches": `torch.matmul` of vectors, and of matrices in batches of different sizes.
        "product_type": products of a number and anything but a tensor of 32-bit floats with
          dimensions.
        "power_root": powers by 0.5, as roots.
        "rank": permutations of more than four dimensions of which some have one element only, as
          permutations of the others, and those that move such dimensions only, as views.
        "reflection_pad": as slices that are turned and joined.
        "scalar_shape": permutations and windows of tensors without dimensions.
        "scalar_sum": sums, cumulative sums and `log_softmax` of tensors without dimensions.
        "scalar_type": whole numbers or booleans beside a number of another type, which may be a
          bound.
        "scattered_number": `scatter` of a number, as that of a tensor of it.
        "single_size": convolutions and pooling with one stride, padding or size in a list for all
          dimensions, or without padding by name ("valid"), with one for each.
        "uneven_padding": padding by a number of other sizes before than behind, as even padding of
          which a part is taken.
        "unfilled": tensors whose numbers are written later (`torch.empty`), of sizes that vary, as
          zeros.
        "varying_circle": circular padding over or by sizes that vary, as parts that are joined.
        "varying_factor": sums and differences of which one tensor has a factor that sizes give.
        "weight_order": convolutions of rows whose weights have their channels last.
        "sum_factor": sums and differences of tensors of which one has a factor.
        "whole_correction": variances whose correction is the count of elements or more.
        "swish": SiLU behind anything but a linear layer, written so that no compiler fuses it.
        "single_any": `any` and `all` of whole tensors, as those of a dimension.
        "window_strides": averages and maxima over windows side by side, with strides.
        "zero_factor": `torch.addmm` whose first tensor is multiplied by 0, as a product.
        "zeroth_power": powers by 0, which are 1.

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
        return [
            written
            for module in modules
            for written in _write_out_in(
                module, self.names, program if module is program.graph_module else None
            )
        ]


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


def _write_out_in(
    module: GraphModule, names: Sequence[str], program: ExportedProgram | None = None
) -> list[Written]:
    """Writes out calls of one graph; `program`: whose own graph it is, and which stores tensors."""
    found: list[Written] = []
    # What is made of these is looked at below.
    composites = {operator for name in names for operator in COMPOSITES.get(name, ())}
    for node in list(module.graph.nodes) if composites else ():
        operator = str(node.target).removeprefix("aten.")
        if node.op == "call_function" and operator in composites:
            _replace(node, aten(operator))
            module.recompile()
    for node in list(module.graph.nodes):
        operator = str(node.target)
        base = _without_writing(operator.removeprefix("aten."))
        writes = base != operator.removeprefix("aten.")
        for name in names if node.op == "call_function" else ():
            for rule in RULES[name]:
                if str(node.target) != operator:
                    break
                if rule.constants and program is None:
                    continue
                if base in rule.operators and not (writes and rule.given) and rule.applies(node):
                    function = _written(rule.function) if writes else rule.function
                    if rule.given:
                        node.args, node.kwargs = tuple(rule.given(node)), {}
                    if rule.constants and program is not None:
                        node.args = (*_stored(program, node, rule.constants(node)), *node.args)
                    count = _replace(node, function, rule.whole)
                    found.append(Written(name, node, operator, count))
    if found:
        module.recompile()
    return found


def _stored(program: ExportedProgram, node: Node, tensors: Sequence[Tensor]) -> list[Node]:
    """Constants that a program gets for a call."""
    from executorch.backends.transforms.utils import create_constant_placeholder
    from torch.export.graph_signature import InputKind

    first = next(iter(program.graph.nodes))
    with program.graph.inserting_before(first):
        return [
            create_constant_placeholder(
                program,
                program.graph,
                f"c_{node.name}_constant_{number}",
                InputKind.CONSTANT_TENSOR,
                tensor,
            )
            for number, tensor in enumerate(tensors)
        ]


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
    # Where the operator is one of those that replace it, quantizers must not take others for it.
    others = [(last, node), *((made, nodes[made]) for made in nodes if made.op == "call_function")]
    if any(made.target is node.target for made, _ in others):
        for made, other in others:
            if made.target is not node.target:
                other.meta["source_fn_stack"] = [(other.name, made.target)]
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
