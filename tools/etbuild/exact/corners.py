"""Operators at their corners: one element, no dimension named, no more elements than a correction.

ExecuTorch's kernels and delegates take most calls as eager does, and go wrong where a tensor has a
single element, or an argument says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import argument_of, aten, has_no_dimension, is_scalar
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


def _is_of_all(node: Node) -> bool:
    return is_scalar(node) and not has_no_dimension(node)


def _of_one_dimension(operator: str) -> Callable[..., Any]:
    def function(x: Any, *rest: Any, **kwargs: Any) -> Any:
        return aten(operator)(x.reshape(1, -1), 1).reshape(())

    return function


def _scalar_sum(x: Any, dim: int, *, dtype: Any = None) -> Any:
    import torch

    whole = torch.int64 if not x.is_floating_point() else x.dtype
    return x.to(dtype or whole).clone()


def _sum_of_scalar(x: Any, dim: Any, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _scalar_sum(x, 0, dtype=dtype)


def _log_softmax_of_scalar(x: Any, dim: int, dtype: Any = None) -> Any:
    """Zero, and NaN for infinities and NaN."""
    x = x if dtype is None else x.to(dtype)
    return x - x


def _permute_of_scalar(x: Any, *dims: Any) -> Any:
    return x.clone()


def _unfold_of_scalar(x: Any, dimension: int, size: int, step: int) -> Any:
    return x.reshape(1)[:size].clone()


def _names_none(place: int) -> Callable[[Node], bool]:
    """Tells whether the list of the dimensions that are reduced is empty: eager takes all."""

    def applies(node: Node) -> bool:
        value = node.args[0].meta["val"]  # type: ignore[union-attr]
        return argument_of(node, place, "dim") == [] and value.dim() > 0

    return applies


def _over_all(operator: str, place: int) -> Callable[..., Any]:
    def function(x: Any, *rest: Any, **named: Any) -> Any:
        dims = list(range(x.dim()))
        if "dim" in named or len(rest) < place:
            return aten(operator)(x, *rest, **{**named, "dim": dims})
        given = list(rest)
        given[place - 1] = dims
        return aten(operator)(x, *given, **named)

    return function


def _corrects_all(node: Node) -> bool:
    """Tells whether a variance is of several elements, and of no more than its correction."""
    shape = node.args[0].meta["val"].shape  # type: ignore[union-attr]
    dims = argument_of(node, 1, "dim") or range(len(shape))
    sizes = [shape[dim] for dim in dims] if shape else []
    correction = node.kwargs.get("correction")
    if correction is None or not all(isinstance(size, int) for size in sizes):
        return False
    return 1 < math.prod(sizes) <= correction


def _infinite(operator: str) -> Callable[..., Any]:
    def function(x: Any, dim: Any = None, *, correction: Any, keepdim: bool = False) -> Any:
        # Not a number where all elements are the same, as in eager.
        return aten(operator)(x, dim, correction=0, keepdim=keepdim) / 0.0

    return function


def _keeps_one_place(node: Node) -> bool:
    """Tells whether the place of an extreme of all numbers has their dimensions."""
    keepdim = argument_of(node, 2, "keepdim", False)
    return bool(argument_of(node, 1, "dim") is None and keepdim and not has_no_dimension(node))


def _place_in_all(operator: str) -> Callable[..., Any]:
    def function(x: Any, *rest: Any, **named: Any) -> Any:
        return aten(operator)(x.reshape(-1), 0).reshape([1] * x.dim())

    return function


def _is_of_one_row(node: Node) -> bool:
    target = node.args[1].meta["val"]  # type: ignore[union-attr]
    return target.dim() == 0 and argument_of(node, 5, "reduction", 1) == 0


def _takes_boolean(node: Node) -> bool:
    """Tells whether floats are beside a boolean of Python's that stands for 0 or 1."""
    import torch

    value = node.meta["val"]
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return is_float and any(isinstance(v, bool) for v in (*node.args, *node.kwargs.values()))


def _with_floats(operator: str) -> Callable[..., Any]:
    def function(*args: Any, **named: Any) -> Any:
        def number(value: Any) -> Any:
            return float(value) if isinstance(value, bool) else value

        return aten(operator)(*map(number, args), **{n: number(v) for n, v in named.items()})

    return function


def _gives_nothing(node: Node) -> bool:
    """Tells whether a result is a tensor without elements."""
    import torch

    value = node.meta["val"]
    is_tensor = isinstance(value, torch.Tensor)
    return is_tensor and any(isinstance(size, int) and size == 0 for size in value.shape)


def _nothing(operator: str) -> Callable[..., Any]:
    def function(*args: Any, **named: Any) -> Any:
        import torch
        from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

        with disable_proxy_modes_tracing():
            value = aten(operator)(*args, **named)
        return torch.zeros(value.shape, dtype=value.dtype)

    return function


def _expands_implicitly(node: Node) -> bool:
    return bool(argument_of(node, 2, "implicit", False))


def _expanded(x: Any, size: list[int], *rest: Any, **named: Any) -> Any:
    return x.expand(size)


def _loss_of_one(*args: Any, **named: Any) -> Any:
    return aten("multi_margin_loss.default")(*args, **named).reshape(())


# Those whose kernels fail or crash, or whose strides upstream has no order for.
_FAILING_ON_NOTHING = (
    *("_adaptive_avg_pool2d.default", "_log_softmax.default", "adaptive_avg_pool1d.default"),
    *("adaptive_avg_pool2d.default", "adaptive_avg_pool3d.default", "amax.default"),
    *("amin.default", "avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default"),
    *("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input"),
    "convolution.default",
    *("cosine_similarity.default", "cumprod.default", "im2col.default", "index_select.default"),
    *("linalg_vector_norm.default", "log_softmax.int", "logcumsumexp.default"),
    *("repeat.default", "tile.default"),
)

_PERMUTATIONS = (
    *("movedim.int", "movedim.intlist", "numpy_T.default", "permute.default"),
    *("permute_copy.default", "swapaxes.default", "swapdims.default", "t.default"),
    "transpose.int",
)
_TAKING_NUMBERS = (
    *("clamp.default", "clamp_max.default", "clamp_min.default", "elu.default"),
    *("hardtanh.default", "leaky_relu.default", "threshold.default"),
)

# They give places from 0 on.
_PLACES = ("aten.arange.", "aten.argmax.", "aten.argmin.", "aten.argsort.", "aten.searchsorted.")
# Of a stored tensor that has no place below zero.
FROM_START = "places_from_start"


def _may_count_back(node: Node) -> bool:
    """Tells whether places of a tensor's elements may be below zero, and count from its end."""
    places = [each for each in node.args[1] if each is not None]  # type: ignore[union-attr]
    return any(_is_whole(each) and not _is_from_start(each) for each in places)


def _is_from_start(node: Node) -> bool:
    if node.op == "get_attr":
        value = attrgetter(str(node.target))(node.graph.owning_module)
        return not bool((value < 0).any())
    return FROM_START in node.meta or str(node.target).startswith(_PLACES)


def _is_whole(node: Node) -> bool:
    import torch

    dtype = node.meta["val"].dtype
    return dtype != torch.bool and not dtype.is_floating_point


def _from_start(operator: str) -> Callable[..., Any]:
    def function(x: Any, indices: Any, *rest: Any, **kwargs: Any) -> Any:
        import torch

        dim, counted = 0, []
        for index in indices:
            is_place = index is not None and index.dtype != torch.bool
            end = x.shape[dim] if is_place else 0
            counted.append(torch.where(index < 0, index + end, index) if is_place else index)
            dim += 1 if index is None or is_place else index.dim()
        return aten(operator)(x, counted, *rest, **kwargs)

    return function


RULES: Mapping[str, tuple[Rule, ...]] = {
    "counted_back": tuple(
        Rule((name,), _may_count_back, _from_start(name), whole=True)
        for name in ("index.Tensor", "index_put.default")
    ),
    "boolean_number": tuple(
        Rule((name,), _takes_boolean, _with_floats(name)) for name in _TAKING_NUMBERS
    ),
    "implicit_expansion": (
        Rule(("expand.default", "expand_copy.default"), _expands_implicitly, _expanded),
    ),
    "no_dimension": tuple(
        Rule((name,), _names_none(place), _over_all(name, place))
        for name, place in (
            ("amax.default", 1),
            ("amin.default", 1),
            ("linalg_vector_norm.default", 2),
            ("mean.dim", 1),
            ("nansum.default", 1),
            ("norm.ScalarOpt_dim", 2),
            ("std.correction", 1),
            ("std.dim", 1),
            ("sum.dim_IntList", 1),
            ("var.correction", 1),
            ("var.dim", 1),
        )
    ),
    "no_elements": tuple(
        Rule((name,), _gives_nothing, _nothing(name)) for name in _FAILING_ON_NOTHING
    ),
    "one_place": tuple(
        Rule((name,), _keeps_one_place, _place_in_all(name))
        for name in ("argmax.default", "argmin.default")
    ),
    "one_loss": (Rule(("multi_margin_loss.default",), _is_of_one_row, _loss_of_one),),
    "scalar_shape": (
        Rule(_PERMUTATIONS, has_no_dimension, _permute_of_scalar),
        Rule(("unfold.default", "unfold_copy.default"), has_no_dimension, _unfold_of_scalar),
    ),
    "scalar_sum": (
        Rule(("cumsum.default",), is_scalar, _scalar_sum),
        Rule(("log_softmax.int",), has_no_dimension, _log_softmax_of_scalar),
        Rule(("sum.dim_IntList",), has_no_dimension, _sum_of_scalar),
    ),
    "single_any": tuple(
        Rule(
            (f"{name}.default", f"{name}.dim", f"{name}.dims"),
            _is_of_all,
            _of_one_dimension(f"{name}.dim"),
        )
        for name in ("all", "any")
    ),
    "whole_correction": tuple(
        Rule((name,), _corrects_all, _infinite(name))
        for name in ("std.correction", "var.correction")
    ),
}
REASONS: Mapping[str, str] = {
    "counted_back": "the delegate takes no places that count from the end",
    "boolean_number": "a delegate's file has no booleans for numbers",
    "implicit_expansion": "the kernel takes no expansion that is marked as implicit",
    "no_elements": "the kernels fail or crash on tensors without elements",
    "no_dimension": "delegates take no dimension for none, and eager for all",
    "one_place": "upstream gives the place one dimension",
    "one_loss": "torch's export gives it a dimension",
    "scalar_shape": "kernels and delegates refuse or crash on tensors without dimensions",
    "scalar_sum": "the kernels refuse, crash or lose NaN on tensors without dimensions",
    "single_any": "the delegate's result has a dimension too many",
    "whole_correction": "the kernel divides by less than zero, and eager by zero",
}
