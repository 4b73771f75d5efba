"""Recipes for GPUs with Vulkan (executorch/backends/vulkan); upstream has no recipes for it."""

from __future__ import annotations

from typing import Any

from etbuild import RecipeContext
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.export import ExportRecipe, LoweringRecipe


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """The precision of the weights; what Vulkan can't take runs in portable kernels."""
    ctx.options.only()
    return _recipe("vulkan_fp32", {})


def fp16(ctx: RecipeContext) -> ExportRecipe:
    """Weights and arithmetic in 16-bit floats; inputs and outputs keep their types."""
    ctx.options.only()
    return _recipe("vulkan_fp16", {"force_fp16": True})


def _recipe(name: str, options: dict[str, Any]) -> ExportRecipe:
    return ExportRecipe(
        name=name, lowering_recipe=LoweringRecipe(partitioners=[VulkanPartitioner(options)])
    )
