"""Recipes for MPS, which upstream removed."""

from __future__ import annotations

from types import SimpleNamespace

import mps_recipes
import pytest
import torch
from etbuild import Options, RecipeContext

MAXIMA = torch.ops.aten.max_pool2d.default


def _context() -> RecipeContext:
    return RecipeContext(Options({}, "//:r"), "//:r")


@pytest.mark.parametrize(("name", "flag"), [("fp32", b"\0"), ("fp16", b"\1")])
def test_precision(name: str, flag: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The partitioner gets it."""
    module = SimpleNamespace(MPSPartitioner=lambda specs: SimpleNamespace(specs=specs))
    monkeypatch.setattr(mps_recipes, "_partition", lambda: module)
    recipe = getattr(mps_recipes, name)(_context())
    (partitioner,) = recipe.lowering_recipe.partitioners
    assert [(s.key, s.value) for s in partitioner.specs] == [("use_fp16", flag)]


def test_windows_get_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream's lowering reads them, also where they are the windows' sizes."""
    module = SimpleNamespace(MPSPartitioner=lambda specs: SimpleNamespace(specs=specs))
    monkeypatch.setattr(mps_recipes, "_partition", lambda: module)
    program = torch.export.export(torch.nn.MaxPool2d(2), (torch.randn(1, 2, 4, 4),))
    for node in program.graph.find_nodes(op="call_function", target=MAXIMA):
        node.args = node.args[:2]
    for change in mps_recipes.fp32(_context()).aten_transform_passes:
        program = change("forward", program)
    [pool] = program.graph.find_nodes(op="call_function", target=MAXIMA)
    assert list(pool.args[2]) == [2, 2]
