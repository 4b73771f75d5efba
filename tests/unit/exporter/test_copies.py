"""Copies of modules that keep tensors which torch does not copy."""

from __future__ import annotations

import warnings

import torch
from etexport.copies import deep


class Computed(torch.nn.Module):
    """A module that keeps a tensor that was computed from its parameter, in several places."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.arange(4.0))
        self.twice = 2 * self.w
        self.listed = [self.twice, {"view": self.twice[1:]}]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(4,)."""
        return x * self.listed[0]


def test_a_weight_that_is_computed_anew() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = torch.nn.utils.weight_norm(torch.nn.Linear(4, 4))
    x = torch.randn(2, 4)
    torch.testing.assert_close(deep(net)(x), net(x))


def test_computed_tensors_are_copied_once() -> None:
    net = Computed()
    copied = deep(net)
    assert copied.listed[0] is copied.twice and copied.twice is not net.twice
    torch.testing.assert_close(copied(torch.ones(4)), net(torch.ones(4)))
    with torch.no_grad():
        net.twice.zero_()
    assert copied.listed[1]["view"].tolist() == [2.0, 4.0, 6.0]


def test_what_stays_itself_stays() -> None:
    net = Computed()
    copied = deep(net, {id(net.w): net.w})
    assert copied.w is net.w and deep(net).w is not net.w
    assert torch.Tensor.__deepcopy__.__name__ == "__deepcopy__"
