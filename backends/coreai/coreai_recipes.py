"""Upstream's recipes for Apple's Core AI (executorch/backends/apple/coreai/recipes)."""

from __future__ import annotations

import coreai_reproducible
from etbuild import RecipeContext
from executorch.backends.apple.coreai.recipes import CoreAIRecipeType
from executorch.export import ExportRecipe


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """32-bit floats."""
    coreai_reproducible.install()
    return ExportRecipe.get_recipe(CoreAIRecipeType.FP32)


def fp16(ctx: RecipeContext) -> ExportRecipe:
    """16-bit floats, also of inputs and outputs."""
    coreai_reproducible.install()
    return ExportRecipe.get_recipe(CoreAIRecipeType.FP16)
