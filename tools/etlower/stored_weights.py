"""Weights of linear layers that a checkpoint holds as integers and scales.

A model computes with the floats that they stand for, so it is measured and compared like any other.
The parameter also has the integers. Where a recipe lets torchao quantize the layer by the scheme
that they have, the program gets them, bit for bit, and torchao leaves the layer alone. What must
hold: nothing is quantized twice in silence. A checkpoint of torchao's was made for one scheme, so
another one is an error; a file of another project says less, and its floats are quantized anew,
which the report says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from etbuild import BuildError
from etbuild.recipes import LayerFilter
from torch import nn
from torchao.quantization import IntxUnpackedToInt8Tensor, quantize_
from torchao.utils import TorchAOBaseTensor

_ATTRIBUTE = "stored_weight"
# Attributes of torchao's tensors that say nothing of the scheme.
_NO_SCHEME = ("dtype",)
_FLOATS = "no quantization by torchao"


@dataclass(frozen=True)
class StoredWeight:
    """Integers and scales of a checkpoint.

    Attributes:
      weight: one of torchao's tensors, in float32.
      source: the file, for messages.
      required: whether a recipe with another scheme is an error. Else the file says nothing of
        activations, and those of the recipe count.
    """

    weight: torch.Tensor
    source: str
    required: bool


def keep(parameter: nn.Parameter, stored: StoredWeight) -> None:
    """Notes what a weight is stored as.

    Args:
      parameter: a linear layer's weight, with the floats that the integers stand for.
      stored: the integers.
    """
    setattr(parameter, _ATTRIBUTE, stored)


def is_quantized(layer: nn.Module) -> bool:
    """Tells whether a layer's weight is one of torchao's tensors."""
    return isinstance(getattr(layer, "weight", None), TorchAOBaseTensor)


def put(
    modules: Mapping[str, nn.Module],
    configs: Iterable[Any],
    label: str,
    noted: Callable[[str], None],
) -> None:
    """Puts stored integers into layers whose scheme a recipe has, in place.

    Args:
      modules: by method.
      configs: torchao's configurations of the recipe.
      label: of the model, for messages.
      noted: called with a sentence for each file and scheme.

    Raises:
      BuildError: a layer's integers are required, and the recipe has another scheme.
    """
    configs = list(configs)
    notes: dict[tuple[str, str, str], int] = {}
    made: dict[int, nn.Parameter] = {}
    for name, layer in _stored_layers(modules).items():
        stored = getattr(layer.weight, _ATTRIBUTE)
        theirs = _of_recipe(layer, name, configs)
        if not stored.required:
            stored = _beside_activations(stored, theirs)
        ours, reason = described(stored.weight), _reason(stored.weight, theirs)
        if reason and stored.required:
            raise BuildError(
                f"{label}: {name}: {stored.source} has {ours}, and the recipe gives {reason}.",
                "Choose a recipe with the scheme of the checkpoint, or the checkpoint in floats.",
            )
        if not reason:
            layer.weight = made.setdefault(id(layer.weight), _parameter(stored, layer.weight))
        key = stored.source, ours, reason
        notes[key] = notes.get(key, 0) + 1
    for (source, ours, reason), count in sorted(notes.items()):
        layers = f"{count} linear layers" if count > 1 else "1 linear layer"
        if reason:
            change = "dequantized" if reason == _FLOATS else "quantized anew"
            noted(f"{layers} of {source} with {ours} are {change}: the recipe gives {reason}.")
        else:
            noted(f"{layers} have the integers and scales of {source}: {ours}.")


def _beside_activations(stored: StoredWeight, recipes: torch.Tensor | None) -> StoredWeight:
    """The same integers, with the recipe's quantization of activations."""
    if not isinstance(recipes, IntxUnpackedToInt8Tensor):
        return stored
    weight = stored.weight
    weight = IntxUnpackedToInt8Tensor(
        weight.qdata,
        weight.scale,
        weight.zero_point,
        weight.target_dtype,
        weight.block_size,
        weight.dtype,
        recipes.activation_quantization,
    )
    return dataclasses.replace(stored, weight=weight)


def _parameter(stored: StoredWeight, floats: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(stored.weight.to(floats.dtype), requires_grad=False)


def described(weight: torch.Tensor) -> str:
    """The scheme of one of torchao's tensors, for messages."""
    if not isinstance(weight, IntxUnpackedToInt8Tensor):
        return type(weight).__name__
    bits = str(weight.target_dtype).removeprefix("torch.int")
    group, columns = weight.block_size[-1], weight.shape[-1]
    scales = "a scale a row" if group == columns else f"a scale for {group} columns"
    zeros = " and zero points" if _has_zero_points(weight) else ""
    activations = weight.activation_quantization
    # A text where a file says it.
    kind = getattr(activations, "value", activations)
    beside = f" beside {kind} activations" if kind else ""
    return f"{bits}-bit weights with {scales}{zeros}{beside}"


def _reason(stored: torch.Tensor, recipes: torch.Tensor | None) -> str:
    """Names the scheme that a recipe gives instead of the integers; "": theirs."""
    if recipes is None:
        return _FLOATS
    if _scheme(stored) != _scheme(recipes):
        return described(recipes)
    if stored.activation_quantization and bool((stored.scale <= 0).any()):
        # XNNPACK refuses to load such a program.
        return "a scheme whose scales must be above 0"
    return ""


def _scheme(weight: torch.Tensor) -> tuple[Any, ...]:
    if not isinstance(weight, IntxUnpackedToInt8Tensor):
        return (type(weight),)
    names = [name for name in weight.tensor_attribute_names if name not in _NO_SCHEME]
    values = [getattr(weight, name) for name in names]
    return (
        type(weight),
        *(tuple(value) if isinstance(value, list | tuple) else value for value in values),
        _has_zero_points(weight),
    )


def _has_zero_points(weight: IntxUnpackedToInt8Tensor) -> bool:
    return bool((weight.zero_point != 0).any())


def _of_recipe(layer: nn.Linear, name: str, configs: Iterable[Any]) -> torch.Tensor | None:
    """The weight of a row of such a layer as torchao quantizes it; None: it stays in floats."""
    for config in configs:
        if hasattr(config.ao_base_config, "fqn_to_config") or not _takes(config, layer, name):
            continue
        probe = nn.Sequential(nn.Linear(layer.in_features, 1, bias=False))
        quantize_(probe, config.ao_base_config, lambda module, _: isinstance(module, nn.Linear))
        return probe[0].weight if is_quantized(probe[0]) else None
    return None


def _takes(config: Any, layer: nn.Linear, name: str) -> bool:
    takes = config.filter_fn is None or config.filter_fn(layer, name)
    inner = getattr(config.filter_fn, "inner", config.filter_fn)
    if takes and isinstance(inner, LayerFilter):
        # It counts layers, and torchao asks it again.
        inner.taken.pop()
    return takes


def _stored_layers(modules: Mapping[str, nn.Module]) -> dict[str, nn.Linear]:
    """Linear layers with stored weights, each once, by the name that it has first."""
    layers: dict[int, tuple[str, nn.Linear]] = {}
    for module in modules.values():
        if not isinstance(module, nn.Module):
            continue
        for name, part in module.named_modules():
            if isinstance(part, nn.Linear) and hasattr(part.weight, _ATTRIBUTE):
                layers.setdefault(id(part), (name, part))
    return dict(layers.values())
