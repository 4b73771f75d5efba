"""The range of a histogram is upstream's, to the bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from etfast import path
from torch import Tensor
from torchao.quantization.pt2e.observer import HistogramObserver

VALUES: dict[str, Callable[[], Tensor]] = {
    "dense": lambda: torch.randn(4000),
    "far": lambda: torch.randn(500) ** 7,
    "few": lambda: torch.rand(9),
    "infinite": lambda: torch.tensor([0.0, 1.0, -torch.inf]),
    "large": lambda: torch.rand(50) * 1e38,
    "mask": lambda: torch.tensor([0.0] * 30 + [-65504.0] * 3),
    "one": lambda: torch.full((3,), 0.5),
    "rectified": lambda: torch.randn(3000).relu(),
    "small": lambda: torch.rand(50) * 1e-40,
    "unlike": lambda: torch.cat([torch.rand(2000), torch.tensor([-300.0, 4e4])]),
    "zeros": lambda: torch.zeros(7),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("name", VALUES)
def test_ranges_are_upstreams(name: str) -> None:
    torch.manual_seed(0)
    observer = HistogramObserver(dtype=torch.int8, qscheme=torch.per_tensor_affine)
    for _ in range(3):
        observer(VALUES[name]())
    with path.installed(()):
        expected = observer._non_linear_param_search()
    with path.installed(path.units(["histogram_search"])) as used:
        found = observer._non_linear_param_search()
    assert used.active == ["histogram_search"]
    assert torch.equal(torch.stack(found), torch.stack(expected)), (found, expected)


def test_sums_that_are_bounds() -> None:
    """Bounds are rounded to 32 bits, as torch does when it compares with a tensor of these."""
    observer = HistogramObserver(dtype=torch.int8, qscheme=torch.per_tensor_affine, bins=512)
    observer.min_val.fill_(0.0)
    observer.max_val.fill_(1.0)
    bounds = (torch.full((512,), 1e-5, dtype=torch.float64).cumsum(0) * 1e6).float().roll(1)
    bounds[0], bounds[-1] = 5.0, 1e6
    observer.histogram.copy_(bounds.diff(prepend=torch.zeros(1)))
    tried: list[tuple[int, int]] = []

    def error(begin: int, end: int) -> float:
        tried.append((begin, end))
        return 0.0

    observer._compute_quantization_error = error  # type: ignore[method-assign]
    observer._non_linear_param_search()
    expected = list(tried)
    tried.clear()
    with path.installed(path.units(["histogram_search"])):
        observer._non_linear_param_search()
    assert len(tried) > 400 and tried == expected
