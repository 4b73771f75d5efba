"""groups_fit: which linear layers a group-wise torchao recipe takes. Needs torch and torchao."""

from __future__ import annotations

import torch
from etbuild import groups_fit
from torchao.quantization import quantize_
from torchao.quantization.granularity import PerGroup
from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig


def test_layers_that_fit_are_taken_and_others_remembered() -> None:
    fits = groups_fit(32)
    assert fits(torch.nn.Linear(64, 5), "a.wide")
    assert fits(torch.nn.Linear(32, 5), "a.same")
    assert not fits(torch.nn.Linear(8, 32), "a.narrow")
    assert not fits(torch.nn.Linear(48, 32), "a.odd")
    assert fits.taken == ["a.wide", "a.same"]
    assert fits.skipped == {
        "a.narrow": "in_features = 8 is not a multiple of 32",
        "a.odd": "in_features = 48 is not a multiple of 32",
    }


def test_other_modules_are_not_mentioned() -> None:
    fits = groups_fit(32)
    assert not fits(torch.nn.Conv2d(3, 3, 3), "conv")
    assert not fits(torch.nn.Embedding(32, 32), "embedding")
    assert (fits.taken, fits.skipped) == ([], {})


def test_a_further_condition_can_leave_layers_out() -> None:
    fits = groups_fit(32)
    fits.also = lambda module, name: name != "head"
    assert fits(torch.nn.Linear(32, 5), "body")
    assert not fits(torch.nn.Linear(32, 5), "head")
    assert fits.skipped == {"head": "left out by the recipe's own filter"}


def test_filters_share_nothing() -> None:
    first, second = groups_fit(32), groups_fit(32)
    first(torch.nn.Linear(32, 5), "a")
    first(torch.nn.Linear(8, 5), "b")
    assert (second.taken, second.skipped) == ([], {})


def test_torchao_takes_it_as_a_filter() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.Linear(8, 4))
    fits = groups_fit(32)
    config = Int8DynamicActivationIntxWeightConfig(torch.int4, PerGroup(32))
    quantize_(net, config, fits)
    assert (fits.taken, list(fits.skipped)) == (["0"], ["1"])
    assert type(net[0].weight) is not torch.nn.Parameter
    assert type(net[1].weight) is torch.nn.Parameter
