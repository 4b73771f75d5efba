"""Memory of methods: state that several methods of a program share."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from etbuild.errors import BuildError

if TYPE_CHECKING:
    from executorch.export import ExportRecipe


def share_mutable_buffers(recipe: ExportRecipe, label: str) -> ExportRecipe:
    """Lets the methods of a program share their mutable buffers, for example a KV cache.

    A buffer that several methods change gets one place in memory that they have in common. The
    runtime must share that memory between methods, too: `Module(…, share_memory_arenas = true)` in
    C++.

    Args:
      recipe: an executorch.export.ExportRecipe; it is changed.
      label: of the recipe, for messages.

    Returns:
      The recipe.

    Raises:
      BuildError: the recipe plans memory in a way that can't be combined with this.

    Example (a recipe's builder):

        def fp32(ctx: RecipeContext) -> ExportRecipe:
            recipe = ExportRecipe.get_recipe(XNNPackRecipeType.FP32)
            if ctx.options.boolean("share_mutable_buffers", False):
                share_mutable_buffers(recipe, ctx.label)
            return recipe
    """
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass

    config = recipe.executorch_backend_config or ExecutorchBackendConfig()
    planning = config.memory_planning_pass
    # Exactly this class: one that extends it, or a dict by method, has a plan of its own.
    if type(planning) is not MemoryPlanningPass or not planning.alloc_mutable_buffers:
        raise BuildError(
            f'{label}: option "share_mutable_buffers": the recipe has a memory planning of its own '
            f"({type(planning).__name__}), wanted ExecuTorch's MemoryPlanningPass that allocates "
            "mutable buffers.",
            "Leave the option out, and let that planning share the buffers.",
        )
    # A new pass: upstream's default one is an object that all configurations have in common.
    shared = MemoryPlanningPass(
        memory_planning_algo=planning.memory_planning_algo,
        allow_lifetime_and_storage_overlap=planning.allow_lifetime_and_storage_overlap,
        alloc_graph_input=planning.alloc_graph_input,
        alloc_graph_output=planning.alloc_graph_output,
        share_mutable_buffers=True,
        alignment=planning.alignment,
    )
    recipe.executorch_backend_config = dataclasses.replace(config, memory_planning_pass=shared)
    return recipe
