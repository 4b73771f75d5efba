"""Options of the recipes for Cadence's DSPs."""

from __future__ import annotations

import cadence_recipes
import pytest
from etbuild import Options, RecipeContext


def _context(**options: str) -> RecipeContext:
    return RecipeContext(Options(options, "//:r"), "//:r")


@pytest.mark.parametrize("kind", sorted(cadence_recipes._QUANTIZERS))
def test_quantizers(kind: str) -> None:
    """Each value of the option picks a quantizer of upstream's."""
    recipe = cadence_recipes.int8(_context(quantizer=kind))
    (quantizer,) = recipe.quantization_recipe.quantizers
    assert type(quantizer) is cadence_recipes._QUANTIZERS[kind]


def test_fp32() -> None:
    """Without a quantizer there is no quantization."""
    assert cadence_recipes.fp32(_context(mode="size")).quantization_recipe is None
