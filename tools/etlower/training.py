"""Quantization-aware training: which recipes and models can be, and loading what was trained.

A checkpoint is the state of a module that was prepared for a recipe (`ettune/qat.py`). It fits no
other: a model or recipe that has changed since is an error. Names and shapes alone do not tell:
torchao's modules have no state of their own, and PT2E's observers take any shape. So a buffer with
the text of the configuration goes with both.

A recipe is for training if its `is_qat` is set. PT2E needs quantizers that say so, too, which only
the recipe's builder can make (`RecipeContext.qat`); torchao's configurations serve both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError, ModelSpec, load_checkpoint
from etbuild.errors import listed
from executorch.export import ExportRecipe, QuantizationRecipe
from torchao.quantization.qat import FakeQuantizedEmbedding, FakeQuantizedLinear, QATConfig

from etlower.flags import Request
from etlower.overrides import MixedQuantization

# A buffer with the text of the configuration.
_CONFIGURATION = "qat_configuration"
_AGAIN = (
    "Train the module that ettune.qat.prepare returns for this model and recipe, and save its "
    "state_dict."
)


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


def make_trainable(recipe: ExportRecipe, label: str) -> None:
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


def mark(module: torch.nn.Module, configuration: str) -> None:
    """Adds the buffer that says what a module was prepared for."""
    text = bytearray(configuration.encode())
    module.register_buffer(_CONFIGURATION, torch.frombuffer(text, dtype=torch.uint8))


def of_observers(module: torch.nn.Module) -> str:
    """Describes a graph that PT2E prepared: types, ranges and schemes of its observers, sorted."""
    found = {
        f"{part.dtype} {part.quant_min} to {part.quant_max} {part.qscheme}"
        for part in module.modules()
        if hasattr(part, "qscheme") and hasattr(part, "quant_min")
    }
    return ", ".join(sorted(found))


def train(quantization: QuantizationRecipe, module: torch.nn.Module, label: str) -> None:
    """Trains a prepared module, or loads what was trained, and removes the module's mark.

    Raises:
      BuildError: the recipe does not say how.
    """
    if quantization.train_fn is None:
        raise BuildError(
            f"{label}: the recipe says is_qat, but has no train_fn.",
            'Train with ettune.qat.prepare, and set quantize = "qat" and trained_checkpoint.',
        )
    quantization.train_fn(module)
    delattr(module, _CONFIGURATION)


def with_checkpoint(recipe: ExportRecipe, model: ModelSpec, request: Request) -> None:
    """Lets a recipe load a trained checkpoint where it would train.

    Raises:
      BuildError: as `make_trainable` and `check_model`.
    """
    make_trainable(recipe, request.label)
    check_model(model, request.label)
    recipe.quantization_recipe.train_fn = lambda module: load(
        module, request.trained_checkpoint, request.label
    )


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
    if not _is_state(state):
        also = " with other things" if isinstance(state, Mapping) else ""
        raise BuildError(
            f"{where}: got a {type(state).__name__}{also}, expected tensors by name.", _AGAIN
        )
    own = module.state_dict()
    lacking = own.keys() - state.keys()
    unknown = state.keys() - own.keys()
    if lacking or unknown:
        raise BuildError(
            f"{where} is not of the module that this recipe prepares: it lacks "
            f"{listed(sorted(lacking))}, and has {listed(sorted(unknown))} beyond it.",
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


def _is_state(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in value.items()
    )


def _text(buffer: torch.Tensor) -> str:
    return bytes(buffer.flatten().to(torch.uint8).tolist()).decode("utf-8", "replace")
