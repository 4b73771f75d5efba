"""PT2E quantization of a recipe, with calibration inputs and dynamic shapes per method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from executorch.export import ExportRecipe, stages
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

from etexport import calibration
from etexport.annotations import FloatsOnly
from etexport.exported import Exported
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
    inputs = calibration.inputs_by_method(spec, quantization, label)
    state = _State()
    quantized = {
        name: _quantize_module(
            name, module, spec.methods[name], recipe, inputs.get(name), state, label
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


def _quantize_module(
    name: str,
    module: Any,
    method: Method,
    recipe: ExportRecipe,
    inputs: Iterable[tuple[Any, ...]] | None,
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
        calibration.calibrate(name, prepared, inputs, method, label)
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
