"""Recipes that a language model's YAML file chooses, for et_llm."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from etbuild import BuildError, Options, RecipeContext, share_mutable_buffers

from etllm.entry import read_settings

if TYPE_CHECKING:
    from executorch.export import ExportRecipe

_HQQ = "hqq_scale_only"


def build(ctx: RecipeContext) -> ExportRecipe:
    """The builder of et_llm's recipes.

    A backend's `<backend>_llm.py` says which of its recipes a file asks for; the recipe's function
    is in `<backend>_recipes.py`.

    Args:
      ctx: data: the YAML file; options: `backend`, its name.

    Raises:
      BuildError: the file asks for what the backend's recipes don't do; with its line.
    """
    settings = read_settings(ctx.data, ctx.label)
    backend = ctx.options.text("backend", "")
    try:
        chooser = importlib.import_module(f"{backend}_llm")
    except ModuleNotFoundError:
        raise BuildError(
            f'{ctx.label}: backends: got "{backend}", for which a YAML file cannot choose recipes: '
            f"its folder has no {backend}_llm.py.",
            f'Name one of its recipes: recipes = {{"{backend}": …}}.',
        ) from None
    name, options = chooser.choose(settings)
    function = getattr(importlib.import_module(f"{backend}_recipes"), name)
    recipe = function(RecipeContext(options=Options(options, ctx.label), label=ctx.label))
    if settings.llm.multimethod.share_mutable_buffers:
        share_mutable_buffers(recipe, ctx.label)
    quantization = recipe.quantization_recipe
    if settings.llm.quantization.use_hqq and quantization is not None:
        for config in quantization.ao_quantization_configs or []:
            if hasattr(config.ao_base_config, "intx_choose_qparams_algorithm"):
                config.ao_base_config.intx_choose_qparams_algorithm = _HQQ
    return recipe
