"""Operands and indices of other types than kernels take, or upstream promotes to one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import always, argument_of, aten, dtype_of, gives_half, in_common_type
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


def _has_two_types(node: Node) -> bool:
    values = [source.meta["val"] for source in node.all_input_nodes]
    return len({value.dtype for value in values if hasattr(value, "dtype")}) > 1


def _of_common_type(operator: str) -> Callable[..., Any]:
    def function(x: Any, y: Any) -> Any:
        return aten(operator)(*in_common_type(x, y))

    return function


def _counts_less(node: Node) -> bool:
    """Tells whether an operand without dimensions gives way to the other one's type.

    For the kernels it counts as much as a tensor: a byte would be compared with -1, not with 255.
    """
    import functools

    import torch

    values = [source.meta["val"] for source in node.all_input_nodes]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    widest = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    return widest != functools.reduce(_result_type, tensors).dtype


def _result_type(x: Any, y: Any) -> Any:
    """An element of the type that eager computes two tensors in, with as many dimensions."""
    import torch

    return x.new_empty((1,) * max(x.dim(), y.dim()), dtype=torch.result_type(x, y))


def _within_type(operator: str) -> Callable[..., Any]:
    """A function of tensors in the type that eager computes them in."""

    def function(*args: Any, **kwargs: Any) -> Any:
        import functools

        import torch
        from torch.utils import _pytree as pytree

        tensors = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)]
        dtype = functools.reduce(_result_type, tensors).dtype
        args, kwargs = pytree.tree_map_only(
            torch.Tensor, lambda tensor: tensor.to(dtype), (args, kwargs)
        )
        return aten(operator)(*args, **kwargs)

    return function


def _of_widest_type(operator: str) -> Callable[..., Any]:
    """A function of tensors in the widest of their types, whose result has the first one's."""

    def function(x: Any, *rest: Any) -> Any:
        import functools

        import torch

        tensors = [value for value in (x, *rest) if isinstance(value, torch.Tensor)]
        dtype = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
        given = (v.to(dtype) if isinstance(v, torch.Tensor) else v for v in (x, *rest))
        return aten(operator)(*given).to(x.dtype)

    return function


def _of_first_type(operator: str) -> Callable[..., Any]:
    """A function that takes its second tensor in the type of its first one."""

    def function(x: Any, y: Any, *rest: Any, **kwargs: Any) -> Any:
        return aten(operator)(x, y.to(x.dtype), *rest, **kwargs)

    return function


def _joined(operator: str) -> Callable[..., Any]:
    def function(tensors: list[Any], *rest: Any) -> Any:
        return aten(operator)(_all_in_common_type(tensors), *rest)

    return function


def _gives_half_of_exponent(node: Node) -> bool:
    return gives_half(node) and not node.args[1].meta["val"].is_floating_point()


def _chooses_of_two(node: Node) -> bool:
    """Tells whether the kernel has no common type of what is chosen from, or another one."""
    import torch

    x, y = (source.meta["val"].dtype for source in node.args[1:3])
    # For the kernel a number without dimensions counts as much as a tensor.
    return x != y and (gives_half(node) or torch.promote_types(x, y) != dtype_of(node))


def _where(condition: Any, x: Any, y: Any) -> Any:
    import torch

    return torch.where(condition, *in_common_type(x, y))


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


def _adds_booleans(node: Node) -> bool:
    import torch

    return dtype_of(node) == torch.bool and "alpha" in node.kwargs


def _index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any) -> Any:
    return x.index_add(dim, index, (source * alpha).to(x.dtype))


def _other_index(node: Node) -> bool:
    import torch

    index = argument_of(node, 2, "index", None)
    return index.meta["val"].dtype != torch.int64


def _wide_index(operator: str) -> Callable[..., Any]:
    def function(x: Any, dim: int, index: Any, *rest: Any, **kwargs: Any) -> Any:
        import torch

        return aten(operator)(x, dim, index.to(torch.int64), *rest, **kwargs)

    return function


def _is_mixed(node: Node) -> bool:
    """Tells whether the first operand has whole numbers, and the second is a fraction."""
    first, second = (
        argument_of(node, place, name, None) for place, name in ((0, ""), (1, "other"))
    )
    value = getattr(first, "meta", {}).get("val")
    is_fraction = isinstance(second, float) or isinstance(node.kwargs.get("alpha"), float)
    return is_fraction and value is not None and not value.dtype.is_floating_point


def _computes_in_other(node: Node) -> bool:
    """Tells whether a tensor and a number are computed with in another type than the tensor's.

    Delegates give the number the tensor's type: 0.5 would be 0 beside whole numbers.
    """
    import torch

    operator = str(node.target).removeprefix("aten.")
    place = 1 if operator in _NUMBER_FIRST else 0
    tensor = getattr(node.args[place], "meta", {}).get("val")
    number = node.args[1 - place]
    if not isinstance(tensor, torch.Tensor) or not isinstance(number, int | float):
        return False
    return _type_of_both(operator, tensor, number) != tensor.dtype


def _type_of_both(operator: str, x: Any, y: Any) -> Any:
    """The type that eager computes a tensor and a number in."""
    import torch

    dtype = torch.result_type(x, y)
    is_whole = not (dtype.is_floating_point or dtype.is_complex)
    gives_floats = is_whole and operator.startswith(_GIVING_FLOATS)
    return torch.get_default_dtype() if gives_floats else dtype


def _beside_number(operator: str) -> Callable[..., Any]:
    def function(x: Any, y: Any, *rest: Any, **kwargs: Any) -> Any:
        import torch

        dtype = _type_of_both(operator, x, y)
        x, y = (v.to(dtype) if isinstance(v, torch.Tensor) else v for v in (x, y))
        return aten(operator)(x, y, *rest, **kwargs)

    return function


def _thresholds_whole_numbers(node: Node) -> bool:
    is_whole = not dtype_of(node).is_floating_point
    return is_whole and any(isinstance(value, float) for value in node.args[1:])


def _threshold(x: Any, threshold: float, value: float) -> Any:
    # Eager cuts their fractions off.
    return aten("threshold.default")(x, int(threshold), int(value))


def _in_floats(operator: str) -> Callable[..., Any]:
    def function(x: Any, other: Any, *rest: Any, **kwargs: Any) -> Any:
        import torch

        return aten(operator)(x.to(torch.result_type(x, other)), other, *rest, **kwargs)

    return function


def _takes_number(node: Node) -> bool:
    """Tells whether a number and anything but a tensor of 32-bit floats with dimensions meet."""
    import torch

    operands = [value for value in node.args if hasattr(value, "meta")]
    values = [operand.meta["val"] for operand in operands]
    return len(values) == 1 and (values[0].dtype != torch.float32 or values[0].dim() == 0)


def _product_of_one_type(x: Any, y: Any) -> Any:
    import torch

    x, y = (y, x) if isinstance(x, int | float) else (x, y)
    dtype = torch.result_type(x, y)
    return x.to(dtype) * torch.full((), y, dtype=dtype)


def _has_wider_bound(node: Node) -> bool:
    """Tells whether a bound is a fraction beside whole numbers, or a number beside booleans."""
    x = node.args[0].meta["val"]
    is_whole = not x.dtype.is_floating_point and not x.dtype.is_complex
    return is_whole and dtype_of(node) != x.dtype


def _bounded(operator: str) -> Callable[..., Any]:
    def function(x: Any, *bounds: Any, **named: Any) -> Any:
        import functools

        import torch

        numbers = [v for v in (*bounds, *named.values()) if v is not None]
        # A number that is a fraction gives whole numbers the default type.
        dtype = functools.reduce(torch.promote_types, (torch.result_type(x, n) for n in numbers))
        return aten(operator)(x.to(dtype), *bounds, **named)

    return function


_COMPARING = (
    *("eq.Tensor", "ge.Tensor", "greater.Tensor", "greater_equal.Tensor", "gt.Tensor"),
    *("le.Tensor", "less.Tensor", "less_equal.Tensor", "lt.Tensor", "ne.Tensor"),
    *("not_equal.Tensor", "clamp.Tensor", "clamp_max.Tensor", "clamp_min.Tensor", "clip.Tensor"),
    *("fmax.default", "fmin.default", "max.other", "maximum.default", "min.other"),
    *("minimum.default", "pow.Tensor_Tensor"),
)
_NUMBER_FIRST = ("pow.Scalar", "remainder.Scalar_Tensor", "xlogy.Scalar_Self")
_GIVING_FLOATS = ("div.Scalar", "divide.Scalar", "true_divide.Scalar", "xlogy.")
_WITH_NUMBER = (
    *("add.Scalar", "bitwise_and.Scalar", "bitwise_or.Scalar", "bitwise_xor.Scalar"),
    *("div.Scalar", "divide.Scalar", "eq.Scalar", "floor_divide.Scalar", "fmod.Scalar"),
    *("ge.Scalar", "greater.Scalar", "greater_equal.Scalar", "gt.Scalar", "le.Scalar"),
    *("less.Scalar", "less_equal.Scalar", "lt.Scalar", "mul.Scalar", "multiply.Scalar"),
    *("__and__.Scalar", "__or__.Scalar", "__xor__.Scalar", "bitwise_and.Tensor"),
    *("bitwise_or.Tensor", "bitwise_xor.Tensor", "ne.Scalar", "not_equal.Scalar"),
    *("pow.Scalar", "pow.Tensor_Scalar", "remainder.Scalar"),
    *("rsub.Scalar", "sub.Scalar", "subtract.Scalar", "true_divide.Scalar"),
    *("xlogy.Scalar_Other", "xlogy.Scalar_Self"),
)
_BOUNDED = ("clamp.default", "clamp_max.default", "clamp_min.default", "clip.default")
_INDEXED = ("gather.default", "scatter.src", "scatter.value", "scatter_add.default")
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
_OF_ONE_TYPE = (
    *("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "fmod.Tensor"),
    "remainder.Tensor",
)


def _scatter(x: Any, dim: int, index: Any, value: float) -> Any:
    import torch

    return torch.scatter(x, dim, index, torch.full(index.shape, value, dtype=x.dtype))


RULES: Mapping[str, tuple[Rule, ...]] = {
    "index_type": tuple(Rule((name,), _other_index, _wide_index(name)) for name in _INDEXED),
    "mixed_types": (
        Rule(("cat.default",), _has_two_types, _cat_of_common_type),
        *(Rule((name,), _has_two_types, _of_common_type(name)) for name in _OF_ONE_TYPE),
        Rule(("index_add.default",), _adds_booleans, _index_add),
        Rule(("ldexp.Tensor",), _gives_half_of_exponent, _ldexp),
        Rule(("where.self",), _chooses_of_two, _where),
        *(Rule((name,), _counts_less, _within_type(name)) for name in _COMPARING),
        *(Rule((name,), _has_two_types, _joined(name)) for name in _JOINING),
        *(Rule((name,), _has_two_types, _of_first_type(name)) for name in _LIKE_FIRST),
        *(Rule((name,), _has_two_types, _of_widest_type(name)) for name in (*_NORMS, *_LOSSES)),
    ),
    "product_type": (Rule(("mul.Tensor",), _takes_number, _product_of_one_type),),
    "scalar_type": (
        *(Rule((name,), _is_mixed, _in_floats(name)) for name in _MIXED),
        *(Rule((name,), _computes_in_other, _beside_number(name)) for name in _WITH_NUMBER),
        Rule(("threshold.default",), _thresholds_whole_numbers, _threshold),
        *(Rule((name,), _has_wider_bound, _bounded(name)) for name in _BOUNDED),
    ),
    "scattered_number": (Rule(("scatter.value",), always, _scatter),),
}
REASONS: Mapping[str, str] = {
    "index_type": "the kernel takes 64-bit indices only",
    "mixed_types": "upstream gives the operands no common type",
    "product_type": "the delegate's lowering gives the number a type and a dimension of its own",
    "scalar_type": "kernels and delegates refuse a number of another type, or cut it off",
    "scattered_number": "the delegate takes it in the scale of what it is written into, if any",
}
