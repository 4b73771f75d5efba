"""Recipes that delegate nothing: every operator runs in ExecuTorch's own kernels."""

from __future__ import annotations

from etbuild import RecipeContext, share_mutable_buffers
from executorch.export import ExportRecipe


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """The model as it is, in the precision of its weights.

    Options:
      share_mutable_buffers: whether methods share their state; default false.
    """
    recipe = ExportRecipe(name="portable_fp32")
    if ctx.options.boolean("share_mutable_buffers", default=False):
        share_mutable_buffers(recipe, ctx.label)
    return recipe
