"""The fast path writes the program that upstream's own functions write, byte for byte."""

from __future__ import annotations

from collections.abc import Callable

import nets
import pytest
import recipes
from etbuild import ModelSpec
from etexport import lower
from lowerings import digest

lower.settle()

_PAIRS = [
    (nets.diamond, "fp32"),
    (nets.diamond, "both"),
    (nets.diamond, "dynamic"),
    (nets.outputs, "fp32"),
    (nets.state, "fp32"),
    (nets.state, "static"),
    (nets.state, "vulkan"),
    (nets.tied, "fp32"),
    (nets.choice, "fp32"),
    (nets.choice, "portable"),
    (nets.attention, "hqq"),
    (nets.attention, "fp32"),
    (nets.picture, "fp32"),
    (nets.picture, "static"),
    (nets.methods, "int4"),
    pytest.param(nets.methods, "both", marks=pytest.mark.release),
]


@pytest.mark.parametrize(("net", "recipe"), _PAIRS)
def test_same_bytes(net: Callable[[], ModelSpec], recipe: str) -> None:
    """Every unit is in place, and none shows."""
    stock, fast = (digest(_made(net), recipes.ALL[recipe](), path) for path in ("stock", "fast"))
    assert fast == stock


def _made(net: Callable[[], ModelSpec]) -> ModelSpec:
    import torch

    torch.manual_seed(0)
    return net()
