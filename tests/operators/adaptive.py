"""Pools whose windows follow from the sizes of what they are given and give.

The windows differ in size and lie at uneven steps where one size is no multiple of the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
import torch.nn.functional as F

from tests.operators.nets import Net

_GIVEN = {1: (7,), 2: (5, 6), 3: (3, 4, 5)}
# Of one dimension: one window, neighbors, windows that overlap, copies of elements.
_RESULTS = {1: ((1,), (7,), (3,), (6,), (9,)), 3: ((1, 2, 5), (2, 3, 3), (3, 4, 7))}
_OF_PICTURES = (*itertools.product((1, 2, 3), (3, 4)), (5, 12), (None, 2))


def nets() -> Iterator[Net]:
    """All nets: averages, maxima and their places, by rank and sizes."""
    for rank, given in _GIVEN.items():
        elements = 3 * torch.Size(given).numel()
        order = torch.randperm(elements, generator=torch.Generator().manual_seed(rank))
        x = ((order - elements // 2) / 16).reshape(1, 3, *given)
        for kind, sizes in itertools.product(("avg", "max"), _RESULTS.get(rank, _OF_PICTURES)):
            name = f"adaptive_{kind}_pool{rank}d"
            for has_places in (False, True)[: 1 + (kind == "max")]:
                more = {"return_indices": True} if has_places else {}
                pool = _Pool(name, sizes, more)
                shown = "x".join(map(str, given))
                said = f"float32: 1x3x{shown} to {'x'.join(map(str, sizes))}"
                yield Net(f"nn.functional.{name}", said + ", places" * has_places, pool, (x,))


class _Pool:
    """A pool of given sizes.

    Args:
      name: of a function of `torch.nn.functional`.
      sizes: of its result; None for those that it is given.
      more: other arguments of the function, by name.
    """

    def __init__(self, name: str, sizes: tuple[int | None, ...], more: dict[str, bool]) -> None:
        self._name, self._sizes, self._more = name, sizes, more

    def __call__(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """The function's result."""
        return getattr(F, self._name)(x, self._sizes, **self._more)
