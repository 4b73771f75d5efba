"""With embedded weights a program has the bytes that upstream's API writes."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbours lie beside the links.
HERE = Path(__file__).absolute().parent
BENCH = HERE.parent / "bench"
sys.path[:0] = [str(HERE), str(BENCH)]

import methods  # noqa: E402
import plain  # noqa: E402
from eight_programs import EIGHT  # noqa: E402


@pytest.mark.parametrize("number", range(len(EIGHT)))
def test_small_programs(number: int, tmp_path: Path) -> None:
    """Fp32, 4 bits, 8 bits dynamic and static against `executorch.export.export` here."""
    kind, width, recipe = EIGHT[number]
    output = tmp_path / "plain.pte"
    plain.export(kind, width, recipe, str(output))
    assert _sha256(BENCH / f"eight_{number}.pte") == _sha256(output)


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
def test_methods(backend: str, tmp_path: Path) -> None:
    """Two methods over the same weights, dynamic shapes and constant methods."""
    from executorch.backends.xnnpack.recipes import XNNPackRecipeType
    from executorch.export import ExportRecipe, export

    recipes = {
        "portable": ExportRecipe(name="portable"),
        "xnnpack": ExportRecipe.get_recipe(XNNPackRecipeType.FP32),
    }
    modules, inputs, shapes, constants = methods.parts()
    output = tmp_path / "plain.pte"
    export(
        modules,
        {name: [value] for name, value in inputs.items()},
        recipes[backend],
        dynamic_shapes=shapes,
        constant_methods=constants,
    ).save_to_pte(str(output))
    assert _sha256(HERE / f"methods_{backend}.pte") == _sha256(output)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
