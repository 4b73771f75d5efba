"""Recipes that a language model's YAML file chooses, for et_llm."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from etbuild import BuildError, Options, RecipeContext, share_mutable_buffers

from etllm.entry import read_settings

if TYPE_CHECKING:
    from executorch.export import ExportRecipe

# Backends that compute in the types of the model.
_TYPES = ("portable", "xnnpack")
_HQQ, _PLAIN = "hqq_scale_only", "affine"


def build(ctx: RecipeContext) -> ExportRecipe:
    """The builder of et_llm's recipes.

    The `<folder>_llm.py` of a backend's folder says which of its recipes a file asks for: its
    function `choose`, or, in a folder with another name than the backend has, the function with the
    backend's name. The recipe's function is in `<folder>_recipes.py`.

    Args:
      ctx: data: the YAML file; options: `backend`, its name; `folder`, default that name.

    Raises:
      BuildError: the file asks for what the backend's recipes don't do; with its line.
    """
    settings = read_settings(ctx.data, ctx.label)
    backend = ctx.options.text("backend", "")
    folder = ctx.options.text("folder", backend)
    try:
        chooser = importlib.import_module(f"{folder}_llm")
    except ModuleNotFoundError:
        raise BuildError(
            f'{ctx.label}: backends: got "{backend}", for which a YAML file cannot choose recipes: '
            f"its folder has no {folder}_llm.py.",
            f'Name one of its recipes: recipes = {{"{backend}": …}}.',
        ) from None
    if backend not in _TYPES and settings.llm.model.dtype_override.value != "fp32":
        raise settings.error(
            "model.dtype_override",
            f"fp32: the recipes of {backend} choose what they store",
            "Remove the key.",
        )
    choose = chooser.choose if folder == backend else getattr(chooser, backend)
    name, options = choose(settings)
    function = getattr(importlib.import_module(f"{folder}_recipes"), name)
    context = RecipeContext(Options(options, ctx.label), ctx.label, emulated=ctx.emulated)
    recipe = function(context)
    if settings.llm.multimethod.share_mutable_buffers:
        share_mutable_buffers(recipe, ctx.label)
    quantization, asked = recipe.quantization_recipe, settings.llm.quantization
    if quantization is not None:
        # As upstream's, 8-bit weights alone have plain scales.
        algorithm = _HQQ if asked.use_hqq and asked.qmode != "int8" else _PLAIN
        for config in quantization.ao_quantization_configs or []:
            if hasattr(config.ao_base_config, "intx_choose_qparams_algorithm"):
                config.ao_base_config.intx_choose_qparams_algorithm = algorithm
    return recipe
