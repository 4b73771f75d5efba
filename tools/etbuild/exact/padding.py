"""Padding by reflections, negative or uneven amounts, and of tensors without elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import always, argument_of
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


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
    return bool(argument_of(node, 2, "mode", "constant") == "reflect")


def _pad_by_reflections(x: Any, padding: list[int], mode: str, value: Any = None) -> Any:
    return _reflection_pad(x, padding)


def _cuts_off(node: Node) -> bool:
    import torch

    mode = argument_of(node, 2, "mode", "constant")
    amounts = [n for n in argument_of(node, 1, "pad", ()) if isinstance(n, int)]
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
    is_constant = argument_of(node, 2, "mode", "constant") == "constant"
    is_empty = any(isinstance(size, int) and size == 0 for size in sizes)
    return is_empty and (str(node.target).startswith("aten.constant_pad_nd") or is_constant)


def _shuffles_nothing(node: Node) -> bool:
    sizes = node.args[0].meta["val"].shape
    return any(isinstance(size, int) and size == 0 for size in sizes)


def _unshuffled(x: Any, factor: int) -> Any:
    """As eager has it, which leaves the shape of a tensor without elements."""
    import torch

    return torch.zeros(x.shape, dtype=x.dtype)


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
    is_circular = argument_of(node, 2, "mode", "constant") == "circular"
    amounts = [n for n in node.args[1] if isinstance(n, int)]  # type: ignore[union-attr]
    return is_circular and min(amounts, default=0) >= 0


def _pads_around_varying(node: Node) -> bool:
    sizes = node.args[0].meta["val"].shape
    return _pads_around(node) and not all(isinstance(n, int) for n in (*sizes, *node.args[1]))


def _has_varying_sizes(node: Node) -> bool:
    """Tells whether a tensor that is filled later has a size that varies."""
    return not all(isinstance(size, int) for size in node.meta["val"].shape)


def _zeros(sizes: list[int], **kwargs: Any) -> Any:
    import torch

    return torch.zeros(sizes, dtype=kwargs.get("dtype"))


def _zeros_like(x: Any, sizes: Any = None, **kwargs: Any) -> Any:
    import torch

    return torch.zeros(x.shape if sizes is None else sizes, dtype=kwargs.get("dtype") or x.dtype)


def _padded_around(x: Any, amounts: list[int], mode: str = "", value: Any = None) -> Any:
    import torch

    for place, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
        dim = x.dim() - 1 - place
        size = x.shape[dim]
        has = [type(n) is not int or n > 0 for n in (before, after)]
        parts = [x.narrow(dim, size - before, before)] if has[0] else []
        parts += [x, x.narrow(dim, 0, after)] if has[1] else [x]
        x = torch.cat(parts, dim) if len(parts) > 1 else x
    return x


def _pads_unevenly(node: Node) -> bool:
    """Tells whether a number is added before a dimension more or less often than behind it."""
    pad = argument_of(node, 1, "pad", ())
    is_constant = str(node.target).startswith("aten.constant_pad_nd")
    if not is_constant and argument_of(node, 2, "mode", "constant") != "constant":
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


_PADDINGS = ("constant_pad_nd.default", "pad.default")
_REFLECTIONS = tuple(f"reflection_pad{n}d.default" for n in (1, 2, 3))

RULES: Mapping[str, tuple[Rule, ...]] = {
    "circular_padding": (Rule(("pad.default",), _pads_around, _padded_around),),
    "empty_padding": (
        Rule(_PADDINGS, _pads_nothing, _padding),
        Rule(("pixel_unshuffle.default",), _shuffles_nothing, _unshuffled),
    ),
    "negative_padding": (
        Rule(_PADDINGS, _cuts_off, _padding),
        Rule(("col2im.default",), _folds_padding, _fold),
    ),
    "reflection_pad": (
        Rule(_REFLECTIONS, always, _reflection_pad),
        Rule(("pad.default",), _reflects, _pad_by_reflections),
    ),
    "unfilled": (
        Rule(("empty.memory_format",), _has_varying_sizes, _zeros),
        Rule(("empty_like.default", "new_empty.default"), _has_varying_sizes, _zeros_like),
    ),
    "varying_circle": (Rule(("pad.default",), _pads_around_varying, _padded_around),),
    "uneven_padding": (Rule(_PADDINGS, _pads_unevenly, _even_padding),),
}
REASONS: Mapping[str, str] = {
    "circular_padding": "the delegate takes its integers for fractions",
    "empty_padding": "the kernels take no empty tensors, or give them another shape",
    "negative_padding": "the kernel takes no negative numbers",
    "reflection_pad": "the delegate pads with zeros",
    "unfilled": "upstream gives them the example's sizes",
    "varying_circle": "upstream gives what is padded the example's sizes",
    "uneven_padding": "the delegate reads memory that nothing was written to, or omits a side",
}
