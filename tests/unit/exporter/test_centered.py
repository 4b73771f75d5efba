"""Normalizations of numbers far from zero are eager's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from etbuild import Method, ModelSpec
from quiet_torch import outputs, run, xnnpack
from torch import Tensor, nn


def _by_itself(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape, x, x)


FACTORS = torch.linspace(-1, 2, 8)
NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "layer_norm of several dimensions": lambda x: F.layer_norm(x, (5, 6), x[0, 0] - 99, x[0, 1]),
    "layer_norm by itself": lambda x: _by_itself(x[0, 0]),
    "group_norm": lambda x: F.group_norm(x, 4, FACTORS.to(x), FACTORS.to(x) + 1),
    "group_norm of all": lambda x: F.group_norm(x, 1),
    "group_norm of rows": lambda x: F.group_norm(x[:, :, 0], 2),
    "group_norm of numbers": lambda x: F.group_norm(x[:, :, 0, 0], 2),
    "instance_norm": lambda x: F.instance_norm(x),
    "instance_norm of rows": lambda x: F.instance_norm(x[..., 0], weight=FACTORS.to(x)),
}


class Norms(nn.Module):
    """All norms of an input, and one in a branch."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """x of (n, 8, h, 6)"""
        last = NORMS["layer_norm"]
        branch = torch.cond(x[0, 0, 0, 0] > 0, last, lambda x: x.clone(), (x,))
        return *(norm(x) for norm in NORMS.values()), branch


def far(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 0.1 + 100


@pytest.mark.parametrize("varies", [False, True])
def test_variances_are_of_differences(varies: bool, tmp_path: Path) -> None:
    """The squares of 100.1 and 99.9 agree in the digits that a sum of them has."""
    shapes = ({0: torch.export.Dim("n", min=1, max=4)},) if varies else None
    net = Norms().eval()
    manager = run(ModelSpec({"forward": Method(net, (far(2, 8, 5, 6),), shapes)}), xnnpack("fp32"))
    for size in (1, 2, 4) if varies else (2,):
        x = far(size, 8, 5, 6)
        wants = [want.float() for want in net(x.double())]
        for got, want in zip(outputs(manager, tmp_path, "forward", x), wants, strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=1e-3)


class Moments(nn.Module):
    """Norms with the means and the deviations that they give as well."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """x of (n, 8, h, 6)"""
        batch, channels, height, width = x.shape
        layers = torch.native_layer_norm(x, [width], None, None, 1e-5)
        groups = torch.native_group_norm(x, None, None, batch, channels, height * width, 4, 1e-5)
        instances = torch.ops.aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5)
        return *layers, *groups, *instances


@pytest.mark.parametrize("varies", [False, True])
def test_means_are_of_what_is_given(varies: bool, tmp_path: Path) -> None:
    shapes = ({0: torch.export.Dim("n", min=1, max=4)},) if varies else None
    method = Method(Moments().eval(), (far(2, 8, 5, 6),), shapes)
    manager = run(ModelSpec({"forward": method}), xnnpack("fp32"))
    x = far(3 if varies else 2, 8, 5, 6)
    wants = [want.float() for want in Moments()(x.double())]
    for got, want in zip(outputs(manager, tmp_path, "forward", x), wants, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-3)
