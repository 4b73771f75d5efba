"""A recipe of a user's own."""

from etbuild import RecipeContext
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.export import ExportRecipe


def build(ctx: RecipeContext) -> ExportRecipe:
    """XNNPACK in fp32, under a name of its own."""
    recipe = ExportRecipe.get_recipe(XNNPackRecipeType.FP32)
    recipe.name = ctx.options.text("name", "own")
    return recipe
