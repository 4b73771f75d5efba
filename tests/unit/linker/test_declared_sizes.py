"""The interface takes the sizes that a model was exported for, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from etbuild import BuildError, Method, ModelSpec
from etlink import manifest
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.export import ExportRecipe
from lora import of_recipe
from runner.runtime import Program
from synthetic import link_with
from torch.export import Dim

RECIPES = {
    "portable": None,
    "fp32": XNNPackRecipeType.FP32,
    "int8": XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL,
}


class One(torch.nn.Module):
    """Adds a constant to (a, b)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(a, b)"""
        return torch.relu(x) + 1


class Two(torch.nn.Module):
    """Uses two inputs on their own, so that nothing but their sizes connects them."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(2, a), (b, 3)"""
        return torch.relu(x) + 1, torch.relu(y) + 1


_N, _M = Dim("n", min=4, max=16), Dim("m", min=1, max=4)

# Net, shapes of the example, dynamic shapes, shapes that it takes, and others with what is said.
CASES: dict[str, tuple[Any, Any, Any, list[Any], dict[Any, str]]] = {
    "range": (
        One(),
        [(2, 8)],
        ({1: _N},),
        [[(2, 4)], [(2, 16)], [(2, 7)]],
        {
            ((2, 3),): ": dimension 1 is 3, expected from 4 to 16.",
            ((2, 0),): ": dimension 1 is 0, expected from 4 to 16.",
            ((2, 17),): "expected float32 (2, 16) at most.",
            ((1, 8),): ": dimension 0 is 1, expected 2.",
        },
    ),
    "two": (
        One(),
        [(3, 8)],
        ({0: Dim("k", min=2, max=5), 1: _N},),
        [[(2, 4)], [(5, 16)]],
        {((1, 4),): ": dimension 0 is 1, expected from 2 to 5."},
    ),
    "multiple": (
        One(),
        [(2, 16)],
        ({1: 8 * _M},),
        [[(2, 8)], [(2, 32)]],
        {
            ((2, 12),): ": dimension 1 is 12, expected a multiple of 8, from 8 to 32.",
            ((2, 0),): ": dimension 1 is 0, expected a multiple of 8, from 8 to 32.",
        },
    ),
    "equal": (
        Two(),
        [(2, 8), (8, 3)],
        ({1: _N}, {0: _N}),
        [[(2, 4), (4, 3)], [(2, 16), (16, 3)]],
        {
            ((2, 4), (5, 3)): 'dimension 0 is 5, expected 4: it goes with input_0 ("x")',
            ((2, 4), (3, 3)): "dimension 0 is 3, expected from 4 to 16.",
        },
    ),
    "one more": (
        Two(),
        [(2, 8), (9, 3)],
        ({1: _N}, {0: _N + 1}),
        [[(2, 4), (5, 3)], [(2, 16), (17, 3)]],
        {((2, 5), (5, 3)): "dimension 0 is 5, expected 6: it goes with input_0"},
    ),
    "no minimum": (
        One(),
        [(2, 8)],
        ({1: Dim.DYNAMIC(max=16)},),
        [[(2, 1)], [(2, 16)]],
        {},
    ),
}


def built(case: str, recipe: str, folder: Path) -> tuple[Path, Path]:
    """A program of a case, and its manifest."""
    net, shapes, dynamic, _, _ = CASES[case]
    method = Method(net, tuple(map(torch.randn, shapes)), dynamic_shapes=dynamic)
    kind = RECIPES[recipe]
    made = ExportRecipe.get_recipe(kind) if kind else ExportRecipe(name="portable")
    lowered = of_recipe(ModelSpec({"forward": method}), (), folder, "//x:p", made)
    linked, program, _ = link_with(lowered, folder / "out")
    manifest.write(manifest.beside(program), linked.manifest)
    return program, manifest.beside(program)


@pytest.mark.parametrize("recipe", sorted(RECIPES))
@pytest.mark.parametrize("case", sorted(CASES))
@pytest.mark.few(4)
def test_sizes(case: str, recipe: str, tmp_path: Path) -> None:
    program, own_manifest = built(case, recipe, tmp_path)
    net, _, _, taken, refused = CASES[case]
    with Program(program, manifest=own_manifest) as opened:
        for shapes in taken:
            inputs = [np.random.default_rng(0).random(s, np.float32) for s in shapes]
            got = opened.run("forward", inputs)
            wanted = net(*map(torch.from_numpy, inputs))
            for array, tensor in zip(got, wanted if len(got) > 1 else [wanted], strict=True):
                assert array.shape == tuple(tensor.shape)
        for shapes, said in refused.items():
            with pytest.raises(BuildError) as caught:
                opened.run("forward", [np.zeros(s, np.float32) for s in shapes])
            assert said in caught.value.what


def test_symbols_have_names_of_their_own(tmp_path: Path) -> None:
    """Torch counts its symbols, and skips numbers."""
    _, own_manifest = built("one more", "portable", tmp_path)
    [program] = manifest.read(own_manifest).programs.values()
    x, y = program.methods["forward"].sizes
    assert (x.sizes[1].symbol, x.sizes[1].times, x.sizes[1].plus) == ("s0", 1, 0)
    assert (y.sizes[0].symbol, y.sizes[0].times, y.sizes[0].plus) == ("s0", 1, 1)
