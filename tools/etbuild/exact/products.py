"""Products of matrices, and sums of tensors that have factors."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import argument_of, aten
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


def _has_factors(node: Node) -> bool:
    return (argument_of(node, 3, "beta", 1), argument_of(node, 4, "alpha", 1)) != (1, 1)


def _has_zero_factor(node: Node) -> bool:
    return bool(argument_of(node, 3, "beta", 1) == 0)


def _addmm(bias: Any, x: Any, y: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    product = alpha * (x @ y)
    # What is multiplied by zero counts for nothing, be it infinite.
    return product if beta == 0 else beta * bias + product


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
    return bool(argument_of(node, 2, "alpha", 1) != 1)


def _has_number_factor(node: Node) -> bool:
    numbers = (node.args[1], argument_of(node, 2, "alpha", 1))
    return numbers[1] != 1 and all(type(number) in (int, float) for number in numbers)


def _sum_of_product(operator: str) -> Callable[..., Any]:
    def function(x: Any, number: float, alpha: float = 1) -> Any:
        return aten(operator)(x, number * alpha)

    return function


def _has_varying_factor(node: Node) -> bool:
    return not isinstance(argument_of(node, 2, "alpha", 1), int | float)


def _sum_with(operator: str) -> Callable[..., Any]:
    def function(x: Any, y: Any, alpha: Any = 1) -> Any:
        if operator.startswith("rsub"):
            return y - x * alpha
        return x + y * alpha if operator.startswith("add") else x - y * alpha

    return function


def _adds_to_one(node: Node) -> bool:
    """Tells whether a tensor with a factor is added to a number, or to what may be one."""
    if argument_of(node, 2, "alpha", 1) == 1 or not hasattr(node.args[1], "meta"):
        return False
    if not hasattr(node.args[0], "meta"):
        return True
    sizes = getattr(node.args[0].meta["val"], "shape", ())
    return all(not isinstance(size, int) or size == 1 for size in sizes)


def _sum(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    import torch

    # Eager multiplies in the type of the result.
    return x + y.to(torch.result_type(x, y)) * alpha


def _has_other_batches(node: Node) -> bool:
    """Tells whether a product is of vectors, or of matrices in other batches than the second's."""
    x, y = (source.meta["val"].shape for source in node.args[:2])  # type: ignore[union-attr]
    return 1 in (len(x), len(y)) or x[:-2] != y[:-2]


def _product_of_equal_batches(x: Any, y: Any) -> Any:
    import torch

    is_row, is_column = x.dim() == 1, y.dim() == 1
    x = x.unsqueeze(0) if is_row else x
    y = y.unsqueeze(1) if is_column else y
    batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    product = torch.matmul(x.expand(*batch, *x.shape[-2:]), y.expand(*batch, *y.shape[-2:]))
    product = product.squeeze(-1) if is_column else product
    return product.squeeze(-1 if is_column else -2) if is_row else product


def _has_computed_weights(node: Node) -> bool:
    """Tells of a layer whose graph reads weights as attributes whether its own are others."""
    return node.args[1].op != "get_attr"  # type: ignore[union-attr]


def _layer_as_product(x: Any, weight: Any, bias: Any = None) -> Any:
    product = _product_of_equal_batches(x, weight.t())
    return product if bias is None else product + bias


def _has_computed_bias(node: Node) -> bool:
    """Tells whether the bias of a layer follows from an input."""
    bias = argument_of(node, 2, "bias")
    sources = [] if bias is None else [bias]
    for source in sources:
        sources += [each for each in source.all_input_nodes if each not in sources]
    return any(source.op == "placeholder" for source in sources)


def _sum_with_bias(operator: str) -> Callable[..., Any]:
    def function(x: Any, weight: Any, bias: Any, *others: Any, **named: Any) -> Any:
        dims = 0 if operator.startswith("linear") else weight.dim() - 2
        result = aten(operator)(x, weight, None, *others, **named)
        return result + bias.reshape(-1, *[1] * dims)

    return function


_LAYERS = (
    *("linear.default", "conv1d.default", "conv2d.default", "conv3d.default"),
    *("conv1d.padding", "conv2d.padding", "conv3d.padding", "conv_transpose1d.default"),
    *("conv_transpose2d.input", "conv_transpose3d.input"),
)
RULES: Mapping[str, tuple[Rule, ...]] = {
    "addmm": (Rule(("addmm.default",), _has_factors, _addmm),),
    "computed_bias": tuple(
        Rule((name,), _has_computed_bias, _sum_with_bias(name), whole=True) for name in _LAYERS
    ),
    "computed_weights": (
        Rule(("linear.default",), _has_computed_weights, _layer_as_product, whole=True),
    ),
    "einsum": (Rule(("einsum.default",), _is_plain_einsum, _einsum),),
    "first_number": (Rule(("add.Tensor",), _adds_to_one, _sum),),
    "number_factor": tuple(
        Rule((name,), _has_number_factor, _sum_of_product(name))
        for name in ("add.Scalar", "sub.Scalar", "subtract.Scalar")
    ),
    "product_batches": (
        Rule(("matmul.default",), _has_other_batches, _product_of_equal_batches, whole=True),
    ),
    "sum_factor": tuple(
        Rule((name,), _has_sum_factor, _sum_with(name))
        for name in ("add.Tensor", "rsub.Scalar", "rsub.Tensor", "sub.Tensor")
    ),
    "varying_factor": tuple(
        Rule((name,), _has_varying_factor, _sum_with(name))
        for name in ("add.Tensor", "rsub.Scalar", "rsub.Tensor", "sub.Tensor")
    ),
    "zero_factor": (Rule(("addmm.default",), _has_zero_factor, _addmm),),
}
REASONS: Mapping[str, str] = {
    "addmm": "the delegate leaves out the factors",
    "computed_bias": "its kernels take biases that are stored",
    "computed_weights": "its kernels take weights that are stored",
    "einsum": "the delegate moves dimensions of one element wrong",
    "first_number": "the kernel multiplies the single number by the factor, not the other tensor",
    "number_factor": "upstream's passes take no factor of a number",
    "product_batches": "its kernel takes matrices in equal batches",
    "sum_factor": "the delegate leaves out the factor",
    "varying_factor": "quantizers and delegates take no factor that sizes give",
    "zero_factor": "the kernel makes NaN of an infinity or a NaN that counts for nothing",
}
