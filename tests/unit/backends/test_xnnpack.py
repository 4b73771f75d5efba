"""Delegation by XNNPACK's recipes."""

from __future__ import annotations

from pathlib import Path

import torch
import xnnpack_recipes
from etbuild import Method, ModelSpec, Options, RecipeContext
from etfast import path
from etlower import stages
from etlower.progress import Progress
from executorch.runtime import Runtime


class Maxima(torch.nn.Module):
    """Maxima that XNNPACK computes, and those that fail its lowering."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """x of (1, 2, 4, 4)"""
        kept = [x.max(dim, keepdim=True).values for dim in (2, 3, 1, -1)]
        return *kept, x.max(2).values


def test_maxima(tmp_path: Path) -> None:
    x = torch.randn(1, 2, 4, 4)
    program = tmp_path / "net.pte"
    spec = ModelSpec({"forward": Method(Maxima(), (x,))})
    recipe = xnnpack_recipes.fp32(RecipeContext(Options({})))
    with path.chosen("fast"):
        manager = stages.run(spec, recipe, Progress(), "//m:net", etrecord=False)
    program.write_bytes(manager.buffer)
    got = Runtime.get().load_program(program).load_method("forward").execute([x])
    torch.testing.assert_close(tuple(got), Maxima()(x))
