"""What a training script, a training build and a lowering do with a model to be trained.

All get the module from `_prepared`, so that a checkpoint of one fits the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from etbuild import ModelSpec, Options, RecipeContext
from executorch.export import ExportRecipe
from safetensors.torch import save_file

from etexport import quantize, sources, stages, training
from etexport import recipe as recipes
from etexport.flags import Request
from etexport.model import context


def prepare(
    model: ModelSpec, recipe: ExportRecipe | Callable[..., Any], options: Mapping[str, str]
) -> torch.nn.Module:
    """See `etbuild.qat.prepare`."""
    if not isinstance(recipe, ExportRecipe):
        label = getattr(recipe, "__qualname__", "the recipe")
        recipe = recipes.call(
            recipe, RecipeContext(Options(options, label), label, qat=True), label
        )
    return _prepared(model, recipe, recipe.name or "the recipe")


def _prepared(model: ModelSpec, recipe: ExportRecipe, label: str) -> torch.nn.Module:
    training.settle(recipe, label)
    [name] = training.check_model(model, label)
    method = model.methods[name]
    if recipe.quantization_recipe.ao_quantization_configs:
        [module] = stages.prepared_sources({name: method.module}, recipe).values()
        return module.train()
    return quantize.prepared(name, method.module, method, recipe, label)


def write(model: ModelSpec, recipe: ExportRecipe, request: Request) -> None:
    """Trains a model by the function that a request names, and writes the checkpoint.

    Raises:
      BuildError: as `etbuild.qat.prepare`; the function is missing.
      Exception: whatever it raises.
    """
    function = sources.load(request.training, request.model_label, "training")
    module = _prepared(model, recipe, request.label)
    torch.manual_seed(0)
    if len(inspect.signature(function).parameters) > 1:
        function(module, context(request))
    else:
        function(module)
    # Observers may share what they have seen, which this format knows nothing of.
    state = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    save_file(state, request.output)


def with_checkpoint(recipe: ExportRecipe, model: ModelSpec, request: Request) -> None:
    """Lets a recipe load a trained checkpoint where it would train.

    Raises:
      BuildError: as `settle` and `check_model`.
    """
    training.settle(recipe, request.label)
    training.check_model(model, request.label)
    recipe.quantization_recipe.train_fn = lambda module: training.load(
        module, request.trained_checkpoint, request.label
    )
