"""Quantization-aware training, for a script that trains.

    spec = net.build(ModelContext())
    module = ettune.qat.prepare(spec, int8_dynamic_act_int4_weight, {"group_size": "32"})
    for inputs, targets in data:
        loss(module(*inputs), targets).backward()
        …
    torch.save(module.state_dict(), "trained.pt")

and the program of it:

    et_program(
        name = "net_int4",
        model = ":net",
        quantize = "qat",
        recipe = "@rules_executorch//backends/xnnpack:int8_dynamic_act_int4_weight",
        trained_checkpoint = "trained.pt",
    )
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from etbuild import ModelSpec, Options, RecipeContext
from etlower import quantize, stages, training
from etlower import recipe as recipes
from executorch.export import ExportRecipe


def prepare(
    model: ModelSpec,
    recipe: ExportRecipe | Callable[..., Any],
    options: Mapping[str, str] | None = None,
) -> torch.nn.Module:
    """The module to train: the model with what imitates quantization in place.

    `et_program(quantize = "qat")` makes the same module, and loads the trained one's state. This
    needs `@rules_executorch//tools/ettune`, and the packages of the exporter environment
    (`@executorch_exporter//:packages`) or the same versions of torch, torchao and ExecuTorch.

    Args:
      model: what the model's entry point returns, with one method. It stays unchanged. PT2E traces
        it: its inputs have the shapes of the example inputs, but for sizes that its
        `dynamic_shapes` name, such as that of a batch.
      recipe: the builder of a recipe (`xnnpack_recipes.int8_static_per_channel`), or the
        ExportRecipe that it returns for `RecipeContext(…, qat = True)`.
      options: the options of the recipe's target, where a builder is given.

    Returns:
      The module, in training mode. Linear layers of torchao's recipes are FakeQuantizedLinear with
      the names and shapes of the model's. PT2E's module is a graph with observers.

    Raises:
      BuildError: the recipe quantizes nothing, or has no quantizers for training; the model has
        several methods, or is exported already.
    """
    if not isinstance(recipe, ExportRecipe):
        label = getattr(recipe, "__qualname__", "the recipe")
        recipe = recipes.call(
            recipe, RecipeContext(Options(options or {}, label), label, qat=True), label
        )
    return prepared(model, recipe, recipe.name or "the recipe")


def prepared(model: ModelSpec, recipe: ExportRecipe, label: str) -> torch.nn.Module:
    """`prepare` for a recipe as upstream's object.

    Args:
      model: as for `prepare`.
      recipe: becomes one for training.
      label: names the recipe in messages.

    Raises:
      BuildError: as `prepare`.
    """
    training.make_trainable(recipe, label)
    [name] = training.check_model(model, label)
    method = model.methods[name]
    if recipe.quantization_recipe.ao_quantization_configs:
        [module] = stages.prepared_sources({name: method.module}, recipe).values()
        return module.train()
    return quantize.prepared(name, method.module, method, recipe, label)
