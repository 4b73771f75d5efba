"""Exports methods with torch.export, and explains where that fails."""

from __future__ import annotations

from typing import Any

import torch
from etbuild import BuildError, Method
from executorch.export import ExportRecipe


def export(
    name: str, module: Any, method: Method, recipe: ExportRecipe, label: str
) -> torch.export.ExportedProgram:
    """Exports one method, unless it is exported already; then the recipe's ATen passes."""
    if isinstance(module, torch.export.ExportedProgram):
        program = module
    else:
        strict = recipe.strict if method.strict is None else method.strict
        with torch.no_grad():
            program = export_module(name, module, method, strict, label)
    for transform in recipe.aten_transform_passes or []:
        program = transform(name, program)
    return program


def export_module(
    name: str, module: Any, method: Method, strict: bool, label: str
) -> torch.export.ExportedProgram:
    try:
        return torch.export.export(
            module, method.example_inputs, dynamic_shapes=method.dynamic_shapes, strict=strict
        )
    except Exception as error:
        check_eager(name, module, method, label)
        _explain_shapes(name, method, error, label)
        raise


def check_eager(name: str, module: Any, method: Method, label: str) -> None:
    """Where export or lowering failed: does the model itself run on its example inputs?"""
    if isinstance(module, torch.export.ExportedProgram):
        return
    try:
        with torch.no_grad():
            module(*method.example_inputs)
    except Exception as error:
        shapes = ", ".join(
            f"{tuple(v.shape)} {str(v.dtype).removeprefix('torch.')}"
            if isinstance(v, torch.Tensor)
            else type(v).__name__
            for v in method.example_inputs
        )
        raise BuildError(
            f'{label}: the method "{name}" does not run on its example inputs ({shapes}): '
            f"{type(error).__name__}: {error}",
            "Correct example_inputs, or the model's forward.",
        ) from error


def _explain_shapes(name: str, method: Method, error: Exception, label: str) -> None:
    kinds = ("UserError", "ConstraintViolationError", "ValueRangeError")
    if method.dynamic_shapes is None or type(error).__name__ not in kinds:
        return
    raise BuildError(
        f'{label}: the dynamic shapes of the method "{name}" do not fit the model: {error}',
        "Correct dynamic_shapes: a dimension that the model fixes cannot be dynamic, and a range "
        "must hold for all of the model.",
    ) from error
