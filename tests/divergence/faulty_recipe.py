"""A recipe with a fault: the clamp of the second block is lost."""

from __future__ import annotations

from typing import Any

import xnnpack_recipes
from etbuild import RecipeContext
from executorch.export import ExportRecipe


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """XNNPACK's recipe for floats, with the fault."""
    recipe = xnnpack_recipes.fp32(ctx)
    recipe.aten_transform_passes = [*(recipe.aten_transform_passes or []), _without_clamp]
    return recipe


def _without_clamp(name: str, program: Any) -> Any:
    graph = program.graph_module.graph
    clamps = [node for node in graph.nodes if "hardtanh" in str(node.target)]
    clamps[1].args = (clamps[1].args[0], -0.1, 0.1)
    program.graph_module.recompile()
    return program
