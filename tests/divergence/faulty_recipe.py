"""A recipe with a fault: clamps have other bounds."""

from __future__ import annotations

from typing import Any

import xnnpack_recipes
from etbuild import RecipeContext
from executorch.export import ExportRecipe


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """XNNPACK's recipe for floats, with the fault."""
    recipe = xnnpack_recipes.fp32(ctx)
    recipe.aten_transform_passes = [*(recipe.aten_transform_passes or []), _with_other_bounds]
    return recipe


def _with_other_bounds(name: str, program: Any) -> Any:
    graph = program.graph_module.graph
    for node in graph.nodes:
        if "hardtanh" in str(node.target):
            node.args = (node.args[0], -0.1, 0.1)
    program.graph_module.recompile()
    return program
