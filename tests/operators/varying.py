"""Nets over a size that varies, whose numbers or shapes follow from it: one row each.

Delegates write what they know when they are lowered, so that a number, a factor or a count may be
that of the example or of the largest size. Each net runs at both ends of its range, and between.
Examples have another dimension's size where they can: what compares sizes could take two for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch.export import Dim

from tests.operators.nets import Net, described

# A function, the shape of its input, and the place of the size that varies.
_Row = tuple[Callable[[torch.Tensor], Any], tuple[int, ...], int]
_WEIGHT = torch.linspace(-1.0, 1.0, 24).reshape(4, 6)
_FILTER = torch.linspace(-1.0, 1.0, 36).reshape(4, 1, 3, 3)
_KERNEL = torch.linspace(-1.0, 1.0, 72).reshape(4, 6, 3)


def _rows(x: torch.Tensor) -> list[torch.Tensor]:
    resized = [
        F.interpolate(x, scale_factor=2.0, mode="linear"),
        F.interpolate(x, 9, mode="linear"),
        F.interpolate(x, scale_factor=1.5),
    ]
    return [*resized, F.conv1d(x[0], _KERNEL, padding=1), F.group_norm(x, 2)]


def _pictures(x: torch.Tensor) -> list[torch.Tensor]:
    resized = [
        F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True),
        F.interpolate(x, (9, 5), mode="bilinear"),
        F.interpolate(x, scale_factor=2.0, mode="bicubic"),
        F.interpolate(x, (9, 7), mode="bicubic"),
        F.interpolate(x, scale_factor=2.0, mode="nearest-exact"),
    ]
    dilated = F.conv2d(x, _FILTER, padding=2, dilation=2, groups=4)
    return [*resized, F.group_norm(x, 2), F.pad(x, (0, 0, 1, 1), mode="reflect"), dilated]


def _volumes(x: torch.Tensor) -> list[torch.Tensor]:
    return [F.interpolate(x, scale_factor=2.0, mode=mode) for mode in ("nearest", "trilinear")]


def _numbers(x: torch.Tensor) -> list[torch.Tensor]:
    n = x.shape[1]
    square = (x[0, :, None] * x[0]).reshape(n**2)
    return [x * n**-0.5, x * (n * 0.5), x / n**2, square * 2, x * torch.sym_sum((n, n, n))]


def _multiples(x: torch.Tensor) -> torch.Tensor:
    return torch.add(x, x * 2, alpha=x.shape[1])


def _sums(x: torch.Tensor) -> list[torch.Tensor]:
    sums = [(x * 2).mean(2) * 2, (x[:, :, :1] * 2).squeeze(2) * 2, (x[:1] * 2).squeeze(0) * 2]
    return [*sums, F.linear(x.mean(1), _WEIGHT)]


def _batches(x: torch.Tensor) -> list[torch.Tensor]:
    means = (x * 2).mean((2, 3), keepdim=True)
    return [F.pad(x, (2, 1, 1, 2), mode="circular"), F.group_norm(x, 2), means.relu() * 2]


_FUNCTIONS: dict[str, _Row] = {
    "batches": (_batches, (2, 4, 6, 5), 0),
    "circular padding": (lambda x: F.pad(x, (2, 1), mode="circular"), (1, 3, 6), 2),
    "empty tensor": (lambda x: torch.empty(x.shape[1]).fill_(2.0) + x, (3, 6), 1),
    "multiples": (_multiples, (3, 6), 1),
    "numbers": (_numbers, (3, 6), 1),
    "padding by a size": (lambda x: F.pad(x, (0, x.shape[1])), (4, 6), 1),
    "pictures": (_pictures, (1, 4, 6, 5), 2),
    "rows": (_rows, (1, 6, 8), 2),
    "sums": (_sums, (2, 5, 6), 1),
    "volumes": (_volumes, (1, 2, 6, 3, 4), 2),
}


def nets() -> Iterator[Net]:
    """All nets, each with the size of the example between the ends of its range."""
    low, high = 4, 12
    for name, (function, shape, place) in _FUNCTIONS.items():
        dims = range(len(shape))
        others = [size for n, size in enumerate(shape) if n != place and low < size < high]
        example = max(others, default=7)
        sizes = tuple(Dim("n", min=low, max=high) if n == place else None for n in dims)
        runs = [_values(shape, place, size) for size in (example, low, high)]
        said = f"float32: {described(runs[0][0])}, dim {place} varies"
        more = tuple(runs[1:])
        yield Net(f"{name} of varying sizes", said, function, runs[0], (), (sizes,), more)


def _values(shape: tuple[int, ...], place: int, size: int) -> tuple[torch.Tensor]:
    """Numbers of both signs for one size."""
    filled = [size if n == place else each for n, each in enumerate(shape)]
    return (torch.randn(filled, generator=torch.Generator().manual_seed(size)),)
