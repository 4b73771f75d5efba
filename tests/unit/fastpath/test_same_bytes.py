"""The fast path writes the program that upstream's own functions write, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nets
import pytest
import recipes
from etbuild import ModelSpec
from etfast import functional_tracer
from etlower import lower
from lowerings import digest

lower.make_deterministic()

# Each net once, and most recipes.
_PAIRS = [
    (nets.diamond, "dynamic"),
    (nets.outputs, "fp32"),
    (nets.state, "static"),
    (nets.tied, "hqq"),
    (nets.choice, "portable"),
    (nets.attention, "fp32"),
    (nets.rows, "int4"),
    (nets.picture, "static"),
]
_RARE_PAIRS = [
    (nets.diamond, "both"),
    (nets.diamond, "fp32"),
    (nets.state, "fp32"),
    (nets.state, "vulkan"),
    (nets.tied, "fp32"),
    (nets.choice, "fp32"),
    (nets.attention, "hqq"),
    (nets.rows, "portable"),
    (nets.picture, "fp32"),
    (nets.methods, "both"),
    (nets.methods, "int4"),
    (nets.preactivated, "static"),
]


@pytest.mark.parametrize(
    ("net", "recipe"),
    [
        *_PAIRS,
        *(pytest.param(*pair, marks=pytest.mark.release) for pair in _RARE_PAIRS),
    ],
)
@pytest.mark.few(1)
def test_same_bytes(net: Callable[[], ModelSpec], recipe: str) -> None:
    """Every unit is in place, and none shows."""
    stock, fast = (digest(_made(net), recipes.ALL[recipe](), path) for path in ("stock", "fast"))
    assert fast == stock


@pytest.mark.parametrize(
    ("net", "recipe"), [(nets.attention, "dynamic"), (nets.rows, "fp32"), (nets.rows, "int4")]
)
def test_no_graph_is_left_to_upstream(
    net: Callable[[], ModelSpec], recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Language models for XNNPACK: what upstream traces takes three times as long."""
    left: list[functional_tracer.Unsuitable] = []
    check = functional_tracer.check

    def watched(*args: Any, **kwargs: Any) -> None:
        try:
            check(*args, **kwargs)
        except functional_tracer.Unsuitable as error:
            left.append(error)
            raise

    monkeypatch.setattr(functional_tracer, "check", watched)
    digest(_made(net), recipes.ALL[recipe](), "fast")
    assert not left


def _made(net: Callable[[], ModelSpec]) -> ModelSpec:
    import torch

    torch.manual_seed(0)
    return net()
