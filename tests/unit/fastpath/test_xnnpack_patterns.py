"""Patterns are looked for wherever they may be, and are not made for other graphs."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import nets
import pytest
import recipes
from etfast import path, xnnpack_patterns
from etlower import lower
from executorch.backends.xnnpack._passes import convert_to_sdpa
from executorch.backends.xnnpack.partition.graphs import bilinear_2d, sdpa
from lowerings import digest

lower.make_deterministic()


def test_each_pattern_has_one_of_the_operators() -> None:
    graphs = bilinear_2d.get_graphs()
    assert graphs
    assert all(xnnpack_patterns.may_match(graph, xnnpack_patterns.RESIZE) for graph in graphs)
    graphs = sdpa.get_graphs()
    assert graphs
    assert all(xnnpack_patterns.may_match(graph, xnnpack_patterns.ATTENTION) for graph in graphs)


@pytest.mark.parametrize("make", [bilinear_2d._get_bilinear_2d_graphs, sdpa.get_graphs])
def test_the_fast_path_makes_the_same_patterns(make: Any) -> None:
    make = getattr(make, "__wrapped__", make)
    texts = []
    for lowering in ("fast", "stock"):
        with path.chosen(lowering):
            texts.append([str(graph.graph) for graph in make()])
    assert texts[0] == texts[1] and texts[0]


@pytest.mark.parametrize(("net", "result"), [(nets.picture, True), (nets.diamond, False)])
def test_patterns_are_made_where_they_may_match(
    net: Any, result: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    get = bilinear_2d.get_graphs_dict
    monkeypatch.setattr(bilinear_2d, "get_graphs_dict", lambda: asked.append(True) or get())
    digest(net(), recipes.ALL["fp32"](), "fast")
    assert bool(asked) is result


def test_attention_is_not_looked_for_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    watched = SimpleNamespace(get_graphs=lambda: asked.append(True) or sdpa.get_graphs())
    monkeypatch.setattr(convert_to_sdpa, "sdpa", watched)
    digest(nets.diamond(), recipes.ALL["fp32"](), "fast")
    assert not asked
    digest(nets.diamond(), recipes.ALL["fp32"](), "stock")
    assert asked


def test_it_is_left_out_without_xnnpack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "executorch.backends.xnnpack._passes")
    with path.installed(path.units(["xnnpack_patterns"])) as used:
        assert used.active == []
        assert used.skipped == {}
