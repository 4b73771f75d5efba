"""Transposed convolutions that are written in other forms compute the same."""

from __future__ import annotations

import pytest
import torch
from etbuild.folding import fold_constants
from etbuild.transposed import MOST_GROUPS, fill_weights, split_groups
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
def test_groups(dims: int, bias: bool, settings: dict[str, int]) -> None:
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d)[dims - 1]
    net = kind(8, 16, 3, bias=bias, **settings).eval()
    x = torch.randn(2, 8, *[5] * dims)
    graph = split_groups(torch.export.export(net, (x,)).module(check_guards=False))
    torch.testing.assert_close(graph(x), net(x))
    calls = [n for n in graph.graph.nodes if "conv_transpose" in str(n.target)]
    assert len(calls) == settings["groups"]
    assert all(call.args[6] == 1 for call in calls)


@pytest.mark.parametrize("groups", [1, 2 * MOST_GROUPS])
def test_other_groups_stay(groups: int) -> None:
    channels = 2 * MOST_GROUPS
    net = nn.ConvTranspose2d(channels, channels, 3, groups=groups).eval()
    graph = torch.export.export(net, (torch.randn(1, channels, 4, 4),)).module(check_guards=False)
    before = str(graph.graph)
    assert str(split_groups(graph).graph) == before


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_of_few_channels_stay(groups: int) -> None:
    net = nn.ConvTranspose2d(4, 8, 3, groups=groups).eval()
    graph = torch.export.export(net, (torch.randn(1, 4, 4, 4),)).module(check_guards=False)
    calls = [n for n in split_groups(graph, 2).graph.nodes if "conv_transpose" in str(n.target)]
    assert len(calls) == (2 if groups == 2 else 1)


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"groups": 2, "stride": 2, "output_padding": 1},
        {"stride": 2, "padding": 1, "output_padding": 1, "bias": False},
        {"stride": 3, "padding": 2, "output_padding": 2, "groups": 4},
        {"dilation": 2, "padding": 1},
        {"stride": 2, "padding": 1, "output_padding": 1, "dilation": 3, "groups": 8},
    ],
)
def test_filled_weights(dims: int, settings: dict[str, int], batch: tuple[int, ...]) -> None:
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d)[dims - 1]
    net = kind(8, 16, 3, **settings).eval()
    x = torch.randn(*batch, 8, *[5] * dims)
    graph = fill_weights(torch.export.export(net, (x,)).module(check_guards=False))
    torch.testing.assert_close(graph(x), net(x))
    [call] = [n for n in fold_constants(graph).graph.nodes if "conv_transpose" in str(n.target)]
    assert call.args[1].op == "get_attr"
    assert call.target == torch.ops.aten.conv_transpose2d.input
    assert call.args[5:] == ([0, 0], settings.get("groups", 1), [1, 1])


def test_unequal_settings() -> None:
    settings = {"stride": (2, 3), "padding": (0, 2), "output_padding": (1, 2), "dilation": (1, 2)}
    net = nn.ConvTranspose2d(4, 6, (3, 2), **settings).eval()
    x = torch.randn(1, 4, 5, 6)
    graph = fill_weights(torch.export.export(net, (x,)).module(check_guards=False))
    torch.testing.assert_close(graph(x), net(x))
