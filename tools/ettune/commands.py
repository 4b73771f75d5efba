"""The exporter's commands of tuning: measure sensitivities, and train."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from etbuild import ModelSpec
from etfast import path
from etlower import model as models
from etlower import sources
from etlower.flags import Request
from executorch.export import ExportRecipe
from safetensors.torch import save_file

from ettune import choices, qat, sensitivity, texts


def measure(request: Request) -> dict[str, Any]:
    """Returns what `sensitivity.measure` says of a request's model and recipes, with their labels.

    Args:
      request: with a recipe, or a tree of choices; what to measure with is optional.

    Raises:
      BuildError: the model is no language model and a text is given; a file cannot be read.
    """
    recipes = choices.of_request(request)
    with path.while_loading(request.lowering):
        spec = models.load_spec(request)
    data = texts.read(spec, request) if request.text else sensitivity.inputs_of(spec, request)
    with path.chosen(request.lowering):
        measured = sensitivity.measure(spec, recipes, data, request.label)
    return {"label": request.label, "model": request.model_label, **measured}


def train(model: ModelSpec, recipe: ExportRecipe, request: Request) -> None:
    """Trains a model by the function that a request names, and writes the checkpoint.

    Raises:
      BuildError: as `ettune.qat.prepare`; the function is missing.
      Exception: whatever it raises.
    """
    function = sources.load(request.training, request.model_label, "training")
    module = qat.prepared(model, recipe, request.label)
    torch.manual_seed(0)
    if len(inspect.signature(function).parameters) > 1:
        function(module, models.context(request))
    else:
        function(module)
    # Observers may share what they have seen, which this format knows nothing of.
    state = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    save_file(state, request.output)
