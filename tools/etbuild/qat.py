"""Quantization-aware training, for a script that trains.

    spec = net.build(ModelContext())
    module = etbuild.qat.prepare(spec, int8_dynamic_act_int4_weight, {"group_size": "32"})
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

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from etbuild.spec import ModelSpec

if TYPE_CHECKING:
    import torch
    from executorch.export import ExportRecipe


def prepare(
    model: ModelSpec,
    recipe: ExportRecipe | Callable[..., Any],
    options: Mapping[str, str] | None = None,
) -> torch.nn.Module:
    """The module to train: the model with what imitates quantization in place.

    `et_program(quantize = "qat")` makes the same module, and loads the trained one's state. This
    needs `@rules_executorch//tools/etbuild:training`, and the packages of the exporter environment
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
    # The exporter is built on this package. Whoever trains has both.
    exporter = importlib.import_module("etexport.qat")
    return exporter.prepare(model, recipe, options or {})
