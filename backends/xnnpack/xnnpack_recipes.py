"""Upstream's XNNPACK recipes (executorch/backends/xnnpack/recipes) by the names of our targets."""

from __future__ import annotations

from etbuild import BuildError, RecipeContext, groups_fit
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.export import ExportRecipe

# XNNPACK's packed 4-bit kernels take groups in multiples of this many columns.
_GROUP_STEP = 32


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """No quantisation."""
    ctx.options.only()
    return ExportRecipe.get_recipe(XNNPackRecipeType.FP32)


def int8_dynamic_per_channel(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights with one scale a channel; activations are quantised as they come (PT2E)."""
    ctx.options.only()
    return ExportRecipe.get_recipe(XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL)


def int8_static_per_channel(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights with one scale a channel, 8-bit activations; needs calibration (PT2E)."""
    ctx.options.only()
    return ExportRecipe.get_recipe(XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL)


def int8_static_per_tensor(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights with one scale a tensor, 8-bit activations; needs calibration (PT2E)."""
    ctx.options.only()
    return ExportRecipe.get_recipe(XNNPackRecipeType.PT2E_INT8_STATIC_PER_TENSOR)


def int8_dynamic_act_int4_weight_per_channel(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights with one scale a row, 8-bit dynamic activations (torchao)."""
    ctx.options.only()
    recipe = ExportRecipe.get_recipe(
        XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL
    )
    return _filtered(recipe, _GROUP_STEP)


def int8_dynamic_act_int4_weight(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights with one scale a group of columns, 8-bit dynamic activations (torchao).

    Options:
      group_size: columns that share a scale; a multiple of 32; default 32.
    """
    ctx.options.only("group_size")
    group_size = ctx.options.integer("group_size", default=32, minimum=1)
    if group_size % _GROUP_STEP:
        raise BuildError(
            f'{ctx.label}: option "group_size": got {group_size}, wanted a multiple of '
            f"{_GROUP_STEP}: XNNPACK has no other 4-bit kernels."
        )
    recipe = ExportRecipe.get_recipe(
        XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR, group_size=group_size
    )
    return _filtered(recipe, group_size)


def _filtered(recipe: ExportRecipe, multiple: int) -> ExportRecipe:
    # Upstream's recipe has no filter: one layer that is too small would fail the whole model.
    for config in recipe.quantization_recipe.ao_quantization_configs:
        config.filter_fn = groups_fit(multiple)
    return recipe
