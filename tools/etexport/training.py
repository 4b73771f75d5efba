"""Quantization-aware training: the module that is trained, and what its checkpoint becomes.

`prepare` makes the module for a training script (`etbuild.qat`) and for the build, which loads the
checkpoint of that script into it: so names and shapes fit, and a checkpoint of something else is an
error. What breaks this is a model or recipe that changes between the two; the names tell it for
PT2E, whose observers have state. torchao's modules have none, so that a buffer with the text of
the configuration goes with theirs.

A recipe is for training if its `is_qat` is set. PT2E needs quantizers that say so, too, which only
the recipe's builder can make (`RecipeContext.qat`); torchao's configurations serve both.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError, ModelSpec, Options, RecipeContext, load_checkpoint
from executorch.export import ExportRecipe
from safetensors.torch import save_file
from torchao.quantization.qat import FakeQuantizedEmbedding, FakeQuantizedLinear, QATConfig

from etexport import recipe as recipes
from etexport import sources
from etexport.flags import Request
from etexport.model import context
from etexport.overrides import MixedQuantization

# A buffer with the text of torchao's configuration.
_CONFIGURATION = "qat_configuration"
_AGAIN = (
    "Train the module that etbuild.qat.prepare returns for this model and recipe, and save its "
)
_MOST = 8


def prepare(
    model: ModelSpec, recipe: ExportRecipe | Callable[..., Any], options: Mapping[str, str]
) -> torch.nn.Module:
    """See `etbuild.qat.prepare`."""
    if not isinstance(recipe, ExportRecipe):
        label = getattr(recipe, "__qualname__", "the recipe")
        context = RecipeContext(Options(options, label), label, qat=True)
        recipe = recipes.call(recipe, context, label)
    return _prepared(model, recipe, recipe.name or "the recipe")


def _prepared(model: ModelSpec, recipe: ExportRecipe, label: str) -> torch.nn.Module:
    # They import this module.
    from etexport import quantize, stages

    settle(recipe, label)
    [name] = check_model(model, label)
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
    if inspect.signature(function).parameters.keys() - {"module"}:
        function(module, context(request))
    else:
        function(module)
    # Observers may share what they have seen, which this format knows nothing of.
    state = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    save_file(state, request.output)


def check_model(model: ModelSpec, label: str) -> list[str]:
    """Names of the methods of a model that can be trained: one, of an eager module.

    Raises:
      BuildError: it has several, or is exported already.
    """
    names = sorted(model.methods)
    if len(names) > 1:
        raise BuildError(
            f"{label}: quantization-aware training takes a model with one method: got "
            f"{', '.join(names)}.",
            "Train one of them, or give each a model of its own.",
        )
    if not isinstance(model.methods[names[0]].module, torch.nn.Module):
        raise BuildError(
            f'{label}: the method "{names[0]}" is exported already, and training takes an eager '
            "module.",
            "Give the et_model instead.",
        )
    return names


def settle(recipe: ExportRecipe, label: str) -> None:
    """Makes a recipe one for training.

    Raises:
      BuildError: it has nothing that can be trained for.
    """
    quantization = recipe.quantization_recipe
    if not quantization or not (quantization.quantizers or quantization.ao_quantization_configs):
        raise BuildError(
            f"{label}: the recipe {recipe.name} quantizes nothing, so training has no use.",
            'Choose a recipe that quantizes, or remove quantize = "qat".',
        )
    if isinstance(quantization, MixedQuantization) or (
        quantization.quantizers and quantization.ao_quantization_configs
    ):
        raise BuildError(
            f"{label}: the recipe {recipe.name} combines several quantizations, which cannot be "
            "trained for together.",
            "Train for one recipe without overrides.",
        )
    if quantization.quantizers and not quantization.is_qat:
        raise BuildError(
            f"{label}: the recipe {recipe.name} has no quantizers for training: its is_qat is "
            "false.",
            "Its builder must make them where RecipeContext.qat is true.",
        )
    quantization.is_qat = True


def with_checkpoint(recipe: ExportRecipe, model: ModelSpec, request: Request) -> None:
    """Lets a recipe load a trained checkpoint where it would train.

    Raises:
      BuildError: as `settle` and `check_model`.
    """
    settle(recipe, request.label)
    check_model(model, request.label)
    recipe.quantization_recipe.train_fn = lambda module: load(
        module, request.trained_checkpoint, request.label
    )


def steps(config: Any) -> tuple[Any, Any]:
    """torchao's configurations around training.

    Args:
      config: upstream's AOQuantizationConfig of a recipe.

    Returns:
      The one that prepares the layers which `config` takes, and the one that quantizes those.
    """
    base = config.ao_base_config
    before = dataclasses.replace(config, ao_base_config=QATConfig(base, step="prepare"))
    after = dataclasses.replace(
        config,
        ao_base_config=QATConfig(base, step="convert"),
        filter_fn=lambda module, _: isinstance(
            module, FakeQuantizedLinear | FakeQuantizedEmbedding
        ),
    )
    return before, after


def mark(module: torch.nn.Module, config: Any) -> None:
    """Adds the buffer that says what a module was prepared for."""
    text = repr(config.ao_base_config).encode()
    module.register_buffer(_CONFIGURATION, torch.frombuffer(bytearray(text), dtype=torch.uint8))


def unmark(module: torch.nn.Module) -> None:
    """Removes it: a program has no use for it."""
    delattr(module, _CONFIGURATION)


def load(module: torch.nn.Module, checkpoint: Path, label: str) -> None:
    """Loads a trained checkpoint into a prepared module.

    Args:
      module: as `prepare` makes it.
      checkpoint: the state_dict of such a module: safetensors, or what torch.save wrote.
      label: of the program, for messages.

    Raises:
      BuildError: the file cannot be read; it is of a module that was prepared otherwise, with the
        names of what it lacks.
    """
    where = f"{label}: trained_checkpoint: {checkpoint.name}"
    try:
        state = load_checkpoint(checkpoint)
    except BuildError as error:
        raise BuildError(f"{label}: trained_checkpoint: {error.what}", error.hint) from error
    if not isinstance(state, Mapping):
        raise BuildError(
            f"{where}: got a {type(state).__name__}, expected tensors by name.",
            _AGAIN,
        )
    own = module.state_dict()
    lacking = own.keys() - state.keys()
    unknown = state.keys() - own.keys()
    if lacking or unknown:
        raise BuildError(
            f"{where} is not of the module that this recipe prepares: it lacks {_some(lacking)}, "
            f"and has {_some(unknown)} beyond it.",
            _AGAIN,
        )
    if _CONFIGURATION in own:
        got, expected = (_text(one[_CONFIGURATION]) for one in (state, own))
        if got != expected:
            raise BuildError(
                f"{where}: was prepared for another recipe: got {got}, expected {expected}.",
                _AGAIN,
            )
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split()[:40])
        raise BuildError(f"{where} does not fit: {reason}.", _AGAIN) from error


def _text(buffer: torch.Tensor) -> str:
    return bytes(buffer.flatten().to(torch.uint8).tolist()).decode("utf-8", "replace")


def _some(names: set[str]) -> str:
    shown = sorted(names)[:_MOST]
    more = len(names) - len(shown)
    listed = ", ".join(f'"{name}"' for name in shown) or "nothing"
    return f"{listed} and {more} more" if more else listed
