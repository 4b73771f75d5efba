"""Recipes that delegate nothing: every operator runs in ExecuTorch's own kernels.

All take the option `share_mutable_buffers`: whether methods share their state; default false.
"""

from __future__ import annotations

from etbuild import RecipeContext, share_mutable_buffers, weight_only
from executorch.export import ExportRecipe


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """The model as it is, in the precision of its weights."""
    return _made(ctx, "portable_fp32")


def int8_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights of linear layers with one scale a row; each call converts them (torchao)."""
    return weight_only(_made(ctx, "portable_int8_weight_only"), bits=8)


def int4_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights of linear layers; each call unpacks them (torchao).

    Options:
      group_size: columns that share a scale; even; default 32.
    """
    group_size = ctx.options.integer("group_size", default=32)
    return weight_only(_made(ctx, "portable_int4_weight_only"), bits=4, group_size=group_size)


def _made(ctx: RecipeContext, name: str) -> ExportRecipe:
    recipe = ExportRecipe(name=name)
    if ctx.options.boolean("share_mutable_buffers", default=False):
        share_mutable_buffers(recipe, ctx.label)
    return recipe
