"""Recipes for MPS, which upstream removed."""

from __future__ import annotations

from types import SimpleNamespace

import mps_recipes
import pytest
from etbuild import Options, RecipeContext


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
