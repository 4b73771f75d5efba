"""Calibrates each method on its inputs.

They come from the program's calibration file, else from the model's function, else from the
recipe's, and else are the example inputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from executorch.export import ExportRecipe
from safetensors import SafetensorError
from safetensors.torch import load_file

from etlower.flags import Request
from etlower.inputs import like_example

_FORM = (
    'Name tensors by the position of an input ("0"), or by method and position ("prefill/0"), with '
    "one sample beside the other in the first dimension: safetensors.torch.save_file("
    '{"0": torch.stack(samples)}, file).'
)


def with_file(spec: ModelSpec, recipe: ExportRecipe | None, request: Request) -> ModelSpec:
    """The model's specification with the inputs of a request's calibration file, if it has one.

    Raises:
      BuildError: the recipe doesn't calibrate; the file is damaged or doesn't fit the methods.
    """
    if request.calibration is None or recipe is None:
        return spec
    quantization = recipe.quantization_recipe
    if not (quantization and quantization.quantizers):
        raise BuildError(
            f"{request.label}: calibration is given, and the recipe {request.recipe['label']} "
            "calibrates nothing.",
            "Remove calibration, or use a recipe that quantizes statically (PT2E).",
        )
    inputs = read(request.calibration, spec.methods, request.label)
    return dataclasses.replace(spec, calibration=lambda: inputs)


def read(
    file: Path, methods: Mapping[str, Method], label: str, attribute: str = "calibration"
) -> dict[str, list[tuple[torch.Tensor, ...]]]:
    """Inputs by method.

    Args:
      file: a .safetensors file; see et_program's attribute `calibration`.
      methods: the model's.
      label: of the program, for messages.
      attribute: that named the file, for messages.

    Raises:
      BuildError: the file is damaged, names an unknown method or input, leaves one out, or has a
        tensor whose dtype or shape isn't that of the input.
    """
    where = f"{label}: {attribute}: {file.name}"
    if file.suffix != ".safetensors":
        raise BuildError(
            f"{where}: got a {file.suffix or 'nameless'} file, expected .safetensors.", _FORM
        )
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        # safetensors quotes the file, line breaks included.
        reason = " ".join(str(error).split())
        raise BuildError(f"{where} cannot be read: {reason}.") from error
    by_method: dict[str, dict[int, torch.Tensor]] = {name: {} for name in methods}
    for key, tensor in sorted(tensors.items()):
        for method, position in _positions(key, methods, where):
            by_method[method][position] = tensor
    return {
        name: _samples(name, by_method[name], method, where)
        for name, method in methods.items()
        if by_method[name]
    }


def _positions(key: str, methods: Mapping[str, Method], where: str) -> list[tuple[str, int]]:
    """Method and position that a key means; without a method: all that have the position."""
    method, _, position = key.rpartition("/")
    known = [method] if method else list(methods)
    if position.isdigit() and all(name in methods for name in known):
        number = int(position)
        positions = [(name, number) for name in known if number < len(methods[name].example_inputs)]
        if positions:
            return positions
    takes = ", ".join(f"{n} takes {len(m.example_inputs)}" for n, m in sorted(methods.items()))
    raise BuildError(
        f'{where} has the tensor "{key}", which no input is called (inputs: {takes}).',
        _FORM,
    )


def _samples(
    name: str, tensors: Mapping[int, torch.Tensor], method: Method, where: str
) -> list[tuple[Any, ...]]:
    where = f'{where}, method "{name}"'
    examples = method.example_inputs
    missing = [str(i) for i in range(len(examples)) if i not in tensors]
    if missing:
        raise BuildError(f"{where}: the input {', '.join(missing)} is missing.", _FORM)
    counts = {len(tensor) if tensor.dim() else 0 for tensor in tensors.values()}
    if len(counts) != 1 or 0 in counts:
        sizes = ", ".join(f"{i}: {tuple(t.shape)}" for i, t in sorted(tensors.items()))
        raise BuildError(f"{where}: its tensors have different numbers of samples ({sizes}).")
    for position, example in enumerate(examples):
        _check(tensors[position], example, f"{where}: input {position}", method)
    return [
        tuple(tensors[i][sample] for i in range(len(examples))) for sample in range(counts.pop())
    ]


def _check(tensor: torch.Tensor, example: Any, where: str, method: Method) -> None:
    if not isinstance(example, torch.Tensor):
        raise BuildError(f"{where} is a {type(example).__name__}, which no tensor can stand for.")
    got, shape = tuple(tensor.shape[1:]), tuple(example.shape)
    fits = len(got) == len(shape) if method.dynamic_shapes is not None else got == shape
    if not fits or tensor.dtype != example.dtype:
        raise BuildError(
            f"{where}: got samples of {got} {_name(tensor.dtype)}, expected {shape} "
            f"{_name(example.dtype)}.",
            _FORM,
        )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def calibrate(
    name: str,
    prepared: Any,
    samples: Iterable[tuple[Any, ...]] | None,
    method: Method,
    label: str,
) -> None:
    """Runs a prepared method on its calibration inputs.

    Args:
      name: of the method.
      prepared: the module that PT2E prepared.
      samples: input tuples; None: the example inputs.
      method: as the model specifies it.
      label: of the model.

    Raises:
      BuildError: there are none, or one does not fit the method.
    """
    count = 0
    with torch.no_grad():
        for inputs in samples if samples is not None else [method.example_inputs]:
            if not isinstance(inputs, tuple | list):
                raise BuildError(
                    f'{label}: calibration input {count} of the method "{name}" is a '
                    f"{type(inputs).__name__}, expected a tuple of the method's inputs.",
                    "A single input is written (x,), with the comma.",
                )
            where = f'{label}: calibration input {count} of the method "{name}"'
            inputs = like_example(tuple(inputs), method.example_inputs, where)
            try:
                prepared(*inputs)
            except Exception as error:
                if _takes(method, inputs):
                    raise BuildError(
                        f'{label}: the recipe\'s quantizer fails on the method "{name}", which '
                        f"takes calibration input {count}: {error}.",
                        "Use another recipe, or leave layers of that kind in float.",
                    ) from error
                raise BuildError(
                    f'{label}: calibration input {count} does not fit the method "{name}": {error}.'
                ) from error
            count += 1
    if not count:
        raise BuildError(
            f'{label}: the calibration function gave no inputs for the method "{name}".',
            "Return at least one tuple, or leave calibration out to use the example inputs.",
        )


def _takes(method: Method, inputs: tuple[Any, ...]) -> bool:
    try:
        method.module(*inputs)
    except Exception:
        return False
    return True


def inputs_by_method(
    spec: ModelSpec, quantization: Any, label: str
) -> Mapping[str, Iterable[tuple[Any, ...]]]:
    """Calibration inputs of the model or else of the recipe, by method; empty: there are none."""
    if spec.calibration is not None:
        return of_model(spec, label)
    if quantization.calibration_inputs_fn is not None:
        inputs = list(quantization.calibration_inputs_fn())
        return {name: inputs for name in spec.methods}
    return {}


def of_model(spec: ModelSpec, label: str) -> Mapping[str, list[tuple[Any, ...]]]:
    """Runs the calibration function of a model and returns its inputs, by method.

    Raises:
      BuildError: it is of another kind, or for other methods.
    """
    returned = spec.calibration() if spec.calibration else {}
    if isinstance(returned, Mapping):
        unknown = sorted(set(returned) - set(spec.methods))
        if unknown and not set(returned) & set(spec.methods):
            raise BuildError(
                f"{label}: calibration names the methods {', '.join(unknown)}; the model "
                f"has: {', '.join(sorted(spec.methods))}."
            )
        # Drawn before anything else takes random numbers, which preparing a graph does.
        return {name: list(inputs) for name, inputs in returned.items()}
    if not isinstance(returned, Iterable):
        raise BuildError(
            f"{label}: the calibration function returned {returned!r}, expected input tuples, or a "
            "dict of them by method."
        )
    inputs = list(returned)
    return {name: inputs for name in spec.methods}
