"""Squares, guards and logarithms in 16-bit floats stay within what these hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from etbuild import write_out
from etlower import guarded_logarithms, operators
from torch import Tensor, nn

Function = Callable[[Tensor], Tensor]

# Roots come before what is below them.
PASSES = (write_out("half_rms_norm", "half_root"), write_out("half_guard", "half_variance"))
ROWS: dict[str, Function] = {
    "norm": lambda x: torch.linalg.vector_norm(x, dim=1),
    "norm of order 3": lambda x: torch.linalg.vector_norm(x, 3, 1),
    "normalize": lambda x: F.normalize(x, dim=1),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.roll(1, 0), 1),
    "rms_norm": lambda x: F.rms_norm(x, (48,), eps=1e-6),
    "rms_norm by hand": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    "std": lambda x: x.std(1),
    "layer_norm by hand": lambda x: (x - x.mean(1, True)) / (x.var(1, keepdim=True) + 1e-6).sqrt(),
    "root of a sum": lambda x: (x * x).sum(1).sqrt(),
    "root of a long sum": lambda x: ((x / 50).repeat(1, 50) ** 2).sum(1) ** 0.5,
}
ZEROS: dict[str, Function] = {
    "normalize": lambda x: F.normalize(x, dim=1),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.roll(1, 0), 1),
    "rms_norm": lambda x: F.rms_norm(x, (48,), eps=1e-12),
    "of the largest": lambda x: x / (x.abs().amax(1, keepdim=True) + 1e-8),
    "of a sum with signs": lambda x: x / (x.sum(1, keepdim=True) + 1e-9),
    "a bound": lambda x: x / x.abs().sum(1, keepdim=True).clamp(min=1e-9),
    "a root": lambda x: x * ((x * x).sum(1, keepdim=True) + 1e-12).rsqrt(),
    "a view between": lambda x: x / (x.abs().sum(1) + 1e-8)[:, None].expand_as(x).sqrt(),
}


class Net(nn.Module):
    """Calls a function."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def written(function: Function, x: Tensor) -> Callable[[Tensor], Tensor]:
    """A function's graph of 16-bit floats, with operators written out."""
    program = torch.export.export(Net(function).eval(), (x,))
    for write in PASSES:
        write("forward", program)
    module = program.module()
    return lambda given: module(given)


def rows() -> Tensor:
    return torch.randn(4, 48, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("scale", [3e-4, 1.0, 4000.0])
@pytest.mark.parametrize("name", ROWS)
def test_squares_leave_no_range(name: str, scale: float) -> None:
    """Roots of them are right where they are beyond 65,504, or below 6e-8."""
    x = (rows() * scale).half()
    with torch.no_grad():
        got = written(ROWS[name], x)(x)
        want = ROWS[name](x.double())
    assert got.dtype == torch.float16
    torch.testing.assert_close(got.double(), want, rtol=1e-2, atol=2e-2 * float(want.abs().max()))


@pytest.mark.parametrize("name", ZEROS)
def test_zeros_are_divided_by_no_zero(name: str) -> None:
    """They stay zeros, and other rows are what they were."""
    x = rows().half()
    x[2] = 0
    with torch.no_grad():
        got = written(ZEROS[name], x)(x)
        want = ZEROS[name](x.double())
    torch.testing.assert_close(got.double(), want, rtol=5e-3, atol=5e-3)


LOGARITHMS: dict[str, tuple[Function, bool]] = {
    "a sum": (lambda x: (x.relu() + 1e-8).log(), True),
    "a bound": (lambda x: x.clamp(min=1e-6).log2(), True),
    "a large number": (lambda x: (x.relu() + 0.5).log(), False),
    "another function": (lambda x: (x.relu() + 1e-8).sqrt(), False),
    "no guard": (lambda x: x.exp().log(), False),
}


@pytest.mark.parametrize("name", LOGARITHMS)
def test_logarithms_of_small_numbers_are_found(name: str) -> None:
    """With what keeps them from zero."""
    function, is_found = LOGARITHMS[name]
    program = torch.export.export(Net(function), (rows(),))
    found = guarded_logarithms.calls(program.graph, lambda v: operators.number_of(program, v))
    assert len(found) == (2 if is_found else 0)
