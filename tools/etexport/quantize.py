"""PT2E quantization of a recipe, with calibration inputs and dynamic shapes per method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from executorch.export import ExportRecipe, stages
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

from etexport import structure
from etexport.exported import Exported
from etexport.floats_only import FloatsOnly
from etexport.methods import export_module


def quantize(
    modules: Mapping[str, Any], spec: ModelSpec, recipe: ExportRecipe, label: str
) -> dict[str, Any]:
    """Applies PT2E quantization of a recipe: capture, prepare, calibrate, convert.

    Raises:
      BuildError: calibration inputs are missing or don't fit.
    """
    quantization = recipe.quantization_recipe
    if not quantization or not quantization.quantizers:
        return dict(modules)
    calibration = _calibration(spec, quantization, label)
    state = _State()
    quantized = {
        name: _quantize_one(
            name, module, spec.methods[name], recipe, calibration.get(name), state, label
        )
        for name, module in modules.items()
    }
    state.restore()
    return quantized


class _State:
    """The buffers of a model as they were before it was calibrated, which runs it."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def keep(self, module: torch.nn.Module) -> None:
        """Takes note of a module's buffers, except those that are known."""
        for buffer in module.buffers():
            if id(buffer) not in self._before:
                self._before[id(buffer)] = buffer, buffer.detach().clone()

    def restore(self) -> None:
        """Gives all buffers their values again; of two views of one memory the first one's."""
        for buffer, values in reversed(self._before.values()):
            buffer.detach().copy_(values)


def _quantize_one(
    name: str,
    module: Any,
    method: Method,
    recipe: ExportRecipe,
    calibration: Iterable[tuple[Any, ...]] | None,
    state: _State,
    label: str,
) -> Any:
    quantization = recipe.quantization_recipe
    stage = stages.QuantizeStage(quantization)
    if quantization.is_qat and isinstance(module, torch.nn.Module):
        module.train()
    captured = _captured(name, module, method, label)
    captured = stage._apply_passes(captured, quantization.pre_prepare_passes)
    quantizer = FloatsOnly(stage._get_quantizer_for_prepare_pt2e(quantization.quantizers))
    if quantization.is_qat:
        if quantization.train_fn is None:
            raise BuildError(f"{label}: the recipe says is_qat, but has no train_fn.")
        prepared = prepare_qat_pt2e(captured, quantizer)
        prepared = stage._apply_passes(prepared, quantization.post_prepare_passes)
        stages.allow_exported_model_train_eval(prepared)
        stages.move_exported_model_to_train(prepared)
        quantization.train_fn(prepared)
        stages.move_exported_model_to_eval(prepared)
    else:
        state.keep(captured)
        prepared = prepare_pt2e(captured, quantizer)
        prepared = stage._apply_passes(prepared, quantization.post_prepare_passes)
        _calibrate(name, prepared, calibration, method, label)
    prepared = stage._apply_passes(prepared, quantization.pre_convert_passes)
    # Some backends want weights as they were, with the operators that quantize them. Upstream's
    # QuantizationRecipe has no field for it; a recipe of theirs may have.
    fold = getattr(quantization, "fold_quantize", True)
    converted = convert_pt2e(prepared, fold_quantize=fold)
    return stage._apply_passes(converted, quantization.post_convert_passes)


def capture(name: str, module: Any, method: Method, label: str) -> torch.export.ExportedProgram:
    """Exports a method as PT2E wants it: unlike `methods.export` with gradients."""
    return export_module(name, module, method, method.strict is not False, label)


def _captured(name: str, module: Any, method: Method, label: str) -> Any:
    # Guards are a call of a module, which the passes of some quantizers don't know.
    if isinstance(method, Exported) and method.exported_strict is not None and method.captured:
        return method.captured().module(check_guards=False)
    if not isinstance(module, torch.export.ExportedProgram):
        return capture(name, module, method, label).module(check_guards=False)
    if module.range_constraints:
        raise BuildError(
            f'{label}: the method "{name}" is an exported program (.pt2) with dynamic shapes, and '
            "the recipe quantizes it, which needs a new export.",
            "Give the model's code instead, or an exported program with static shapes.",
        )
    return module.module(check_guards=False)


def _calibrate(
    name: str,
    prepared: Any,
    calibration: Iterable[tuple[Any, ...]] | None,
    method: Method,
    label: str,
) -> None:
    count = 0
    with torch.no_grad():
        for inputs in calibration if calibration is not None else [method.example_inputs]:
            if not isinstance(inputs, tuple | list):
                raise BuildError(
                    f'{label}: calibration input {count} of the method "{name}" is a '
                    f"{type(inputs).__name__}, wanted a tuple of the method's inputs.",
                    "A single input is written (x,), with the comma.",
                )
            where = f'{label}: calibration input {count} of the method "{name}"'
            inputs = structure.like_example(tuple(inputs), method.example_inputs, where)
            try:
                prepared(*inputs)
            except Exception as error:
                raise BuildError(
                    f'{label}: calibration input {count} does not fit the method "{name}": {error}.'
                ) from error
            count += 1
    if not count:
        raise BuildError(
            f'{label}: the calibration function gave no inputs for the method "{name}".',
            "Return at least one tuple, or leave calibration out to use the example inputs.",
        )


def _calibration(
    spec: ModelSpec, quantization: Any, label: str
) -> Mapping[str, Iterable[tuple[Any, ...]]]:
    if spec.calibration is not None:
        return calibration_inputs(spec, label)
    if quantization.calibration_inputs_fn is not None:
        inputs = list(quantization.calibration_inputs_fn())
        return {name: inputs for name in spec.methods}
    return {}


def calibration_inputs(spec: ModelSpec, label: str) -> Mapping[str, list[tuple[Any, ...]]]:
    """What the calibration function of a model returns, by method.

    Raises:
      BuildError: it is of another kind, or for other methods.
    """
    made = spec.calibration() if spec.calibration else {}
    if isinstance(made, Mapping):
        unknown = sorted(set(made) - set(spec.methods))
        if unknown and not set(made) & set(spec.methods):
            raise BuildError(
                f"{label}: calibration names the methods {', '.join(unknown)}; the model "
                f"has: {', '.join(sorted(spec.methods))}."
            )
        # Drawn before anything else takes random numbers, which preparing a graph does.
        return {name: list(inputs) for name, inputs in made.items()}
    if not isinstance(made, Iterable):
        raise BuildError(
            f"{label}: the calibration function returned {made!r}, wanted input tuples, or a "
            "dict of them by method."
        )
    inputs = list(made)
    return {name: inputs for name in spec.methods}
