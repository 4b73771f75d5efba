"""Options of the recipes for Cadence's DSPs."""

from __future__ import annotations

import cadence_recipes
import pytest
from etbuild import BuildError, Options, RecipeContext


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantizer": "w8a32"}, 'option "quantizer": got "w8a32", expected one of default, '),
        ({"mode": "fast"}, 'option "mode": got "fast", expected one of minimal, default, size'),
        ({"kind": "x"}, 'unknown option "kind". It takes: mode, quantizer'),
    ],
)
def test_wrong(options: dict[str, str], message: str) -> None:
    """Wrong options are errors that list the right ones."""
    with pytest.raises(BuildError) as caught:
        cadence_recipes.int8(_context(**options))
    assert message in str(caught.value)
