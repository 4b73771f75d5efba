"""Transposed convolutions in groups become one a group, which compute the same."""

from __future__ import annotations

import pytest
import torch
from etbuild.groups import MOST_GROUPS, split_groups
from torch import nn


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        {"groups": 2},
        {"groups": 4, "stride": 2, "padding": 1, "output_padding": 1},
        {"groups": 8, "dilation": 2},
    ],
)
def test_the_same(dims: int, bias: bool, settings: dict[str, int]) -> None:
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d)[dims - 1]
    net = kind(8, 16, 3, bias=bias, **settings).eval()
    x = torch.randn(2, 8, *[5] * dims)
    graph = split_groups(torch.export.export(net, (x,)).module(check_guards=False))
    torch.testing.assert_close(graph(x), net(x))
    calls = [n for n in graph.graph.nodes if "conv_transpose" in str(n.target)]
    assert len(calls) == settings["groups"]
    assert all(call.args[6] == 1 for call in calls)


@pytest.mark.parametrize("groups", [1, 2 * MOST_GROUPS])
def test_others_stay(groups: int) -> None:
    channels = 2 * MOST_GROUPS
    net = nn.ConvTranspose2d(channels, channels, 3, groups=groups).eval()
    graph = torch.export.export(net, (torch.randn(1, channels, 4, 4),)).module(check_guards=False)
    before = str(graph.graph)
    assert str(split_groups(graph).graph) == before
