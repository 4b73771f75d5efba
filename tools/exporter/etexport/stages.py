"""Runs a recipe's stages on a model, with upstream's own stages wherever they suffice.

Three are ours, because upstream's (executorch/export/stages.py, 1.5.1) fall short for a build:
  - source transform: a layer that two methods share is quantised once, not twice;
  - PT2E quantisation: honours dynamic shapes and calibration inputs per method;
  - export: takes `strict` per method and passes programs that are exported already.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from executorch.export import ExportRecipe, stages
from executorch.export.types import StageType
from torchao.quantization import quantize_
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
from torchao.quantization.quant_api import _is_linear
from torchao.utils import unwrap_tensor_subclass

from etexport.progress import Progress

_DEFAULT = (
    StageType.SOURCE_TRANSFORM,
    StageType.QUANTIZE,
    StageType.TORCH_EXPORT,
    StageType.TO_EDGE_TRANSFORM_AND_LOWER,
)


def run(
    spec: ModelSpec,
    recipe: ExportRecipe,
    progress: Progress,
    label: str,
    etrecord: bool,
    exported: Callable[[Mapping[str, Any]], None] | None = None,
) -> Any:
    """Runs all stages.

    Args:
      spec: the model.
      recipe: what to do with it.
      progress: stages are counted here: quantise, export, lower, emit.
      label: of the model, for messages.
      etrecord: whether upstream shall record what devtools need.
      exported: called with the exported programs by method, before they are lowered.

    Returns:
      Upstream's ExecutorchProgramManager.
    """
    modules: dict[str, Any] = {name: method.module for name, method in spec.methods.items()}
    wanted = set(recipe.pipeline_stages or _DEFAULT)
    with progress.stage("quantise"):
        if StageType.SOURCE_TRANSFORM in wanted:
            modules = transform_sources(modules, recipe, label)
        if StageType.QUANTIZE in wanted:
            modules = quantise(modules, spec, recipe, label)
    with progress.stage("export"):
        programs = {
            name: export(name, module, spec.methods[name], recipe, label)
            for name, module in modules.items()
        }
    if exported:
        exported(programs)
    with progress.stage("lower"):
        try:
            edge = _lower(programs, spec, recipe, etrecord)
        except Exception:
            # Tracing accepts some inputs that the model itself does not.
            for name, method in spec.methods.items():
                _check_eager(name, method.module, method, label)
            raise
    with progress.stage("emit"):
        return edge.to_executorch(recipe.executorch_backend_config)


def transform_sources(
    modules: Mapping[str, Any], recipe: ExportRecipe, label: str
) -> dict[str, Any]:
    """Applies torchao's quantisation of a recipe to eager modules.

    Raises:
      BuildError: the recipe has several torchao configurations, or the model is exported already.
    """
    configs = (
        recipe.quantization_recipe and recipe.quantization_recipe.ao_quantization_configs
    ) or []
    if not configs:
        return dict(modules)
    if len(configs) > 1:
        raise BuildError(
            f"{label}: the recipe has {len(configs)} torchao configurations; they don't combine.",
            "Use a torchao.quantization.FqnToConfig, or one of them.",
        )
    for name, module in modules.items():
        if isinstance(module, torch.export.ExportedProgram):
            raise BuildError(
                f'{label}: the method "{name}" is an exported program (.pt2), and the recipe '
                "quantises the layers of an eager model (torchao).",
                "Use a PT2E recipe (int8_…), an fp32 recipe, or quantise before exporting.",
            )
    # One copy of all methods together keeps what they share shared.
    copies = {n: _with_parent(m) for n, m in copy.deepcopy(dict(modules)).items()}
    config = configs[0]
    once = _Once(config.filter_fn or _is_linear)
    seen: dict[int, torch.nn.Module] = {}
    for module in copies.values():
        if _names_layers(config):
            quantize_(_Unseen(module, seen), config.ao_base_config, None)
        else:
            quantize_(module, config.ao_base_config, once)
        unwrap_tensor_subclass(module)
        seen.update((id(m), m) for m in module.modules())
    return copies


def _names_layers(config: Any) -> bool:
    """Whether torchao finds the layers by name, in which case it takes no filter."""
    return hasattr(config.ao_base_config, "fqn_to_config")


def _with_parent(module: torch.nn.Module) -> torch.nn.Module:
    # torchao replaces children; a model that is a single layer needs a parent.
    return torch.nn.Sequential(module) if isinstance(module, torch.nn.Linear) else module


class _Once:
    """A torchao filter that takes a layer the first time that it meets it."""

    def __init__(self, inner: Callable[[torch.nn.Module, str], bool]) -> None:
        self._inner = inner
        self._seen: dict[int, torch.nn.Module] = {}

    def __call__(self, module: torch.nn.Module, name: str) -> bool:
        if id(module) in self._seen or not self._inner(module, name):
            return False
        self._seen[id(module)] = module
        return True


class _Unseen:
    """What torchao walks over by name: a model without the layers that another method has, too."""

    def __init__(self, module: torch.nn.Module, seen: Mapping[int, torch.nn.Module]) -> None:
        self._module = module
        self._seen = seen

    def named_modules(self) -> list[tuple[str, torch.nn.Module]]:
        """The layers that aren't quantised yet."""
        return [(n, m) for n, m in self._module.named_modules() if id(m) not in self._seen]


def quantise(
    modules: Mapping[str, Any], spec: ModelSpec, recipe: ExportRecipe, label: str
) -> dict[str, Any]:
    """Applies PT2E quantisation of a recipe: capture, prepare, calibrate, convert.

    Raises:
      BuildError: calibration inputs are missing or don't fit.
    """
    quantisation = recipe.quantization_recipe
    if not quantisation or not quantisation.quantizers:
        return dict(modules)
    calibration = _calibration(spec, quantisation, label)
    return {
        name: _quantise_one(name, module, spec.methods[name], recipe, calibration.get(name), label)
        for name, module in modules.items()
    }


def _quantise_one(
    name: str,
    module: Any,
    method: Method,
    recipe: ExportRecipe,
    calibration: Iterable[tuple[Any, ...]] | None,
    label: str,
) -> Any:
    quantisation = recipe.quantization_recipe
    stage = stages.QuantizeStage(quantisation)
    if quantisation.is_qat and isinstance(module, torch.nn.Module):
        module.train()
    captured = _captured(name, module, method, label)
    captured = stage._apply_passes(captured, quantisation.pre_prepare_passes)
    quantizer = stage._get_quantizer_for_prepare_pt2e(quantisation.quantizers)
    if quantisation.is_qat:
        if quantisation.train_fn is None:
            raise BuildError(f"{label}: the recipe says is_qat, but has no train_fn.")
        prepared = prepare_qat_pt2e(captured, quantizer)
        prepared = stage._apply_passes(prepared, quantisation.post_prepare_passes)
        stages.allow_exported_model_train_eval(prepared)
        stages.move_exported_model_to_train(prepared)
        quantisation.train_fn(prepared)
        stages.move_exported_model_to_eval(prepared)
    else:
        prepared = prepare_pt2e(captured, quantizer)
        prepared = stage._apply_passes(prepared, quantisation.post_prepare_passes)
        _calibrate(name, prepared, calibration, method, label)
    prepared = stage._apply_passes(prepared, quantisation.pre_convert_passes)
    return stage._apply_passes(convert_pt2e(prepared), quantisation.post_convert_passes)


def _captured(name: str, module: Any, method: Method, label: str) -> Any:
    if not isinstance(module, torch.export.ExportedProgram):
        strict = True if method.strict is None else method.strict
        return _export(name, module, method, strict, label).module()
    if module.range_constraints:
        raise BuildError(
            f'{label}: the method "{name}" is an exported program (.pt2) with dynamic shapes, and '
            "the recipe quantises it, which needs a new export.",
            "Give the model's code instead, or an exported program with static shapes.",
        )
    return module.module()


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
    spec: ModelSpec, quantisation: Any, label: str
) -> Mapping[str, Iterable[tuple[Any, ...]]]:
    if spec.calibration is not None:
        made = spec.calibration()
        if isinstance(made, Mapping):
            unknown = sorted(set(made) - set(spec.methods))
            if unknown and not set(made) & set(spec.methods):
                raise BuildError(
                    f"{label}: calibration names the methods {', '.join(unknown)}; the model "
                    f"has: {', '.join(sorted(spec.methods))}."
                )
            return made
        if not isinstance(made, Iterable):
            raise BuildError(
                f"{label}: the calibration function returned {made!r}, wanted input tuples, or a "
                "dict of them by method."
            )
        inputs = list(made)
        return {name: inputs for name in spec.methods}
    if quantisation.calibration_inputs_fn is not None:
        inputs = list(quantisation.calibration_inputs_fn())
        return {name: inputs for name in spec.methods}
    return {}


def export(
    name: str, module: Any, method: Method, recipe: ExportRecipe, label: str
) -> torch.export.ExportedProgram:
    """Exports one method, unless it is exported already; then the recipe's ATen passes."""
    if isinstance(module, torch.export.ExportedProgram):
        program = module
    else:
        strict = recipe.strict if method.strict is None else method.strict
        with torch.no_grad():
            program = _export(name, module, method, strict, label)
    for transform in recipe.aten_transform_passes or []:
        program = transform(name, program)
    return program


def _export(
    name: str, module: Any, method: Method, strict: bool, label: str
) -> torch.export.ExportedProgram:
    try:
        return torch.export.export(
            module, method.example_inputs, dynamic_shapes=method.dynamic_shapes, strict=strict
        )
    except Exception as error:
        _check_eager(name, module, method, label)
        _explain_shapes(name, method, error, label)
        raise


def _check_eager(name: str, module: Any, method: Method, label: str) -> None:
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
        f'{label}: the dynamic shapes of the method "{name}" don\'t fit the model: {error}',
        "Correct dynamic_shapes: a dimension that the model fixes can't be dynamic, and a range "
        "must hold for all of the model.",
    ) from error


def _lower(
    programs: dict[str, torch.export.ExportedProgram],
    spec: ModelSpec,
    recipe: ExportRecipe,
    etrecord: bool,
) -> Any:
    context = {
        "constant_methods": dict(spec.constant_methods) or None,
        "generate_etrecord": etrecord,
    }
    artifact = stages.PipelineArtifact(programs, context)
    lowering = recipe.lowering_recipe
    pipeline: list[Any] = []
    wanted = recipe.pipeline_stages or _DEFAULT
    makers = {
        StageType.TO_EDGE: stages.ToEdgeStage,
        StageType.TO_BACKEND: stages.ToBackendStage,
        StageType.TO_EDGE_TRANSFORM_AND_LOWER: stages.EdgeTransformAndLowerStage,
        StageType.EDGE_PROGRAM_MANAGER_TRANSFORM: stages.EdgeProgramManagerTransformStage,
    }
    pipeline = [makers[kind].from_recipe(lowering) for kind in wanted if kind in makers]
    if not recipe.pipeline_stages and lowering and lowering.edge_manager_transform_passes:
        pipeline.append(stages.EdgeProgramManagerTransformStage.from_recipe(lowering))
    for stage in pipeline:
        stage.run(artifact)
        artifact = stage.get_artifacts()
    return artifact.data
