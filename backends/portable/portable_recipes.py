"""Recipes that delegate nothing: every operator runs in ExecuTorch's own kernels."""

from __future__ import annotations

from etbuild import RecipeContext
from executorch.export import ExportRecipe


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """The model as it is, in the precision of its weights."""
    ctx.options.only()
    return ExportRecipe(name="portable_fp32")
