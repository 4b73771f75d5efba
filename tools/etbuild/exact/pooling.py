"""Averages and maxima over windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from etbuild.exact.nodes import always, argument_of, aten
from etbuild.exact.rule import Rule

if TYPE_CHECKING:
    from torch.fx import Node


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
    window, padding = _pair(node.args[1]), _pair(argument_of(node, 3, "padding", 0))
    strides = argument_of(node, 2, "stride", ()) or window
    padded = [size + 2 * around for size, around in zip(given, padding, strict=True)]
    # Windows that are cut off have divisors of their own.
    is_cut = argument_of(node, 4, "ceil_mode", False) and any(
        size % of for size, of in zip(padded, window, strict=True)
    )
    counts = argument_of(node, 5, "count_include_pad", True) or not any(padding)
    is_mean = counts and not is_cut and argument_of(node, 6, "divisor_override", None) is None
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
    padding = argument_of(node, 3, "padding", 0)
    counts = argument_of(node, 5, "count_include_pad", True)
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


def _has_no_strides(node: Node) -> bool:
    """Tells whether windows move by their own sizes, which are not said again."""
    return not argument_of(node, 2, "stride", ())


def _with_strides(operator: str) -> Callable[..., Any]:
    def function(x: Any, window: Any, stride: Any = (), *others: Any, **named: Any) -> Any:
        return aten(operator)(x, window, window, *others, **named)

    return function


_POOLING = ("avg_pool2d.default", "max_pool2d.default")

RULES: Mapping[str, tuple[Rule, ...]] = {
    "even_windows": (
        Rule(("avg_pool2d.default",), _has_even_windows, _halved),
        Rule(("adaptive_avg_pool2d.default",), _has_even_windows, _adaptively_halved),
    ),
    "max_pool_backward": (
        Rule(("max_pool2d_with_indices_backward.default",), always, _max_pool_backward),
    ),
    "padded_average": tuple(
        Rule((f"avg_pool{rank}d.default",), _counts_padding, _padded_average(rank))
        for rank in (1, 2)
    ),
    "window_strides": tuple(
        Rule((name,), _has_no_strides, _with_strides(name), whole=True) for name in _POOLING
    ),
}
REASONS: Mapping[str, str] = {
    "even_windows": "the delegate averages twice, with a scale that is too small between",
    "max_pool_backward": "the kernel adds to memory that nobody has set to zero",
    "padded_average": "the delegate pads with steps of zero, which stand for another number",
    "window_strides": "the lowering wants strides, also where they are the windows' sizes",
}
