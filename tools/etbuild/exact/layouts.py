"""Orders in memory, and of dimensions, that kernels and delegates take for rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import always, argument_of, aten
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


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
        return aten(operator)(*(v.contiguous() if hasattr(v, "shape") else v for v in args))

    return function


def _in_weights_order(operator: str) -> Callable[..., Any]:
    def function(x: Any, weight: Any, *rest: Any, **kwargs: Any) -> Any:
        import torch

        last = x.contiguous(memory_format=torch.channels_last)
        if has_channels_last(last):
            return aten(operator)(last, weight, *rest, **kwargs)
        return aten(operator)(x, weight.contiguous(), *rest, **kwargs)

    return function


def _in_rows(operator: str) -> Callable[..., Any]:
    def function(x: Any, *rest: Any, **kwargs: Any) -> Any:
        return aten(operator)(x.contiguous(), *rest, **kwargs)

    return function


def _does_not_wait(node: Node) -> bool:
    return _flag(node, "non_blocking") is True


def _flag(node: Node, name: str) -> Any:
    names = [argument.name for argument in node.target._schema.arguments]
    return argument_of(node, names.index(name), name, None) if name in names else None


def _waiting(operator: str) -> Callable[..., Any]:
    return _with_flag(operator, non_blocking=False)


def _with_flag(operator: str, **flag: Any) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        call = aten(operator)
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


def _narrow(x: Any, dim: int, start: int, length: int) -> Any:
    return x.narrow(dim, start, length).clone()


_COPIES = ("_to_copy.default", "to.device", "to.dtype", "to.dtype_layout", "to.other")
_MAKERS = tuple(f"{name}_like.default" for name in ("empty", "full", "ones", "zeros"))
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

RULES: Mapping[str, tuple[Rule, ...]] = {
    "channels_last": (
        *(Rule((name,), _takes_channels_last, _in_rows(name)) for name in _OF_ROWS),
        *(Rule((name,), _has_other_order, _all_in_rows(name)) for name in _OF_STRIDES),
    ),
    "narrow_copy": (Rule(("narrow_copy.default",), always, _narrow),),
    "non_blocking": tuple(Rule((name,), _does_not_wait, _waiting(name)) for name in _COPIES),
    "one_order": tuple(
        Rule((name,), _has_two_orders, _rows_first(name))
        for name in (*_COPIES, *_MAKERS, "clone.default", "contiguous.default")
    ),
    "rank": (
        Rule(("permute.default",), _has_ones, _permute_without_ones),
        Rule(("transpose.int",), _has_ones, _transpose_without_ones),
    ),
    "weight_order": tuple(
        Rule((name,), _has_other_weights, _in_weights_order(name)) for name in _CONVOLUTIONS
    ),
}
REASONS: Mapping[str, str] = {
    "channels_last": "kernels and delegates take rows only",
    "narrow_copy": "the kernel ends the process for some sizes and for dimensions from the end",
    "non_blocking": "the kernel refuses the flag",
    "one_order": "its strides name two orders, of which kernels and delegates see different ones",
    "rank": "the delegate fails on more than four dimensions, or moves those of one element wrong",
    "weight_order": "the result has the order of the weights, and kernels want it of the input",
}
