"""Runs a recipe's stages on a model, with upstream's own stages wherever they suffice.

An ExportRecipe names stages; upstream's ExportSession runs them on one module and its inputs. A
model here has several methods that share weights, dynamic shapes and calibration inputs of their
own, or is exported already. Three stages are ours for that reason, because upstream's
(executorch/export/stages.py, 1.5.1) fall short:

- source transform: a layer that two methods share is quantized once, not twice;
- PT2E quantization: honors dynamic shapes and calibration inputs per method;
- export: takes `strict` per method and passes programs that are exported already.

From there on (to_edge, to_backend, transform_and_lower) upstream's stages run as they are.

A recipe means the same here as under upstream's ExportSession: the same stages in the same order,
on one method the same program, but for buffers that are written in place (`writes`). The caller's
model stays unchanged: quantization works on copies, which are made of all methods at once, as a
copy of each would end what they share. Where upstream would write a program that differs from the
model without a word, a check fails instead: sizes that were narrowed (`bounds`), state that begins
with other values (`state`).

Who wants to see what is passed on (accuracy, names, delegation) gives a `Watch`; its functions
look, and change nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from etbuild import BuildError, ModelSpec, size_questions
from executorch.exir import ExecutorchBackendConfig
from executorch.export import ExportRecipe, stages
from executorch.export.types import StageType
from torchao.quantization import quantize_
from torchao.quantization.quant_api import _is_linear
from torchao.utils import unwrap_tensor_subclass

from etlower import (
    bounds,
    centered,
    control_flow,
    control_flow_bodies,
    doubles,
    failing_call,
    kernels,
    layouts,
    older_exporters,
    prefixes,
    runnable,
    state,
    stored_weights,
    training,
    undelegated,
    upstream_passes,
    writes,
)
from etlower.inputs import deep_copy
from etlower.methods import check_eager, explain_values, export
from etlower.overrides import MixedQuantization, OwnedLayers
from etlower.progress import Progress
from etlower.quantize import quantize

older_exporters.add_missing_fields()

_DEFAULT = (
    StageType.SOURCE_TRANSFORM,
    StageType.QUANTIZE,
    StageType.TORCH_EXPORT,
    StageType.TO_EDGE_TRANSFORM_AND_LOWER,
)


def _unwatched(value: Any) -> None:
    """Does nothing, in a lowering that nobody watches."""


@dataclass(frozen=True)
class Watch:
    """Functions that see what is made on the way, and change nothing.

    Attributes:
      quantized: called with the modules by method where the recipe quantizes, before they are
        exported: modules, or exported programs.
      exported: called with the exported programs by method, before they are lowered.
      lowered: called with upstream's EdgeProgramManager, before it is emitted.
      noted: called with a sentence on what stays in float although the recipe quantizes it, and on
        what was written out.
    """

    quantized: Callable[[Mapping[str, Any]], None] = _unwatched
    exported: Callable[[Mapping[str, Any]], None] = _unwatched
    lowered: Callable[[Any], None] = _unwatched
    noted: Callable[[str], None] = _unwatched


def run(
    spec: ModelSpec,
    recipe: ExportRecipe,
    progress: Progress,
    label: str,
    etrecord: bool,
    watch: Watch | None = None,
) -> Any:
    """Runs all stages.

    Args:
      spec: the model.
      recipe: what to do with it.
      progress: stages are counted here: quantize, export, lower, emit.
      label: of the model, for messages.
      etrecord: whether upstream shall record what devtools need.
      watch: what looks on.

    Returns:
      Upstream's ExecutorchProgramManager.
    """
    with prefixes.as_taken(recipe):
        return _run(spec, recipe, progress, label, etrecord, watch or Watch())


def _run(
    spec: ModelSpec,
    recipe: ExportRecipe,
    progress: Progress,
    label: str,
    etrecord: bool,
    watch: Watch,
) -> Any:
    spec, changes = state.exportable(spec, label)
    modules: dict[str, Any] = {name: method.module for name, method in spec.methods.items()}
    requested = set(recipe.pipeline_stages or _DEFAULT)
    if isinstance(recipe.quantization_recipe, MixedQuantization):
        recipe.quantization_recipe.check(modules)
    with progress.stage("quantize"), upstream_passes.explained(label):
        if StageType.SOURCE_TRANSFORM in requested:
            modules = transform_sources(modules, recipe, label, watch.noted)
        if StageType.QUANTIZE in requested:
            try:
                modules = quantize(modules, spec, recipe, label, watch.noted)
            except Exception as error:
                explain_values(error, label)
                failing_call.explain_quantizer(error, label)
                raise
    if any(module is not spec.methods[name].module for name, module in modules.items()):
        watch.quantized(modules)
    with progress.stage("export"), upstream_passes.explained(label):
        programs = {
            name: export(name, module, spec.methods[name], recipe, label, watch.noted)
            for name, module in modules.items()
        }
    graphs = [program.graph for program in programs.values()]
    inputs = {name: bounds.exported(program) for name, program in programs.items()}
    for name, module in modules.items():
        if isinstance(module, torch.fx.GraphModule):
            # PT2E quantized it: it was exported before, with the ranges that count.
            bounds.check_export(bounds.captured(module), inputs[name], name, label)
    watch.exported(programs)
    exported = {name: state.kept(program) for name, program in programs.items()}

    def attempt(name: str, program: torch.export.ExportedProgram) -> None:
        _attempt(name, program, spec, recipe, label)

    with progress.stage("lower"):
        try:
            with control_flow_bodies.without_gradients(programs):
                prepared = control_flow_bodies.prepared(programs, recipe, label)
                with (
                    size_questions.answered_for_all(*graphs),
                    kernels.known_are_valid(),
                    doubles.exact_numbers(),
                    kernels.explained(lambda: _graphs(programs), label),
                ):
                    edge = undelegated.lowered(
                        lambda: _lower(prepared, spec, recipe, etrecord),
                        recipe,
                        prepared.values(),
                    )
        except Exception as error:
            # Tracing accepts some inputs that the model itself does not.
            for name, method in spec.methods.items():
                check_eager(name, method.module, method, label)
            explain_values(error, label)
            bounds.explain(error, programs, label)
            failing_call.explain(error, programs, attempt, label)
            raise
    watch.lowered(edge)
    with progress.stage("emit"):
        config = recipe.executorch_backend_config or ExecutorchBackendConfig()
        passes = [*config.passes, centered.Centered(), layouts.RowsFirst()]
        passes.append(control_flow.CopyResults())
        state.check_shared(spec, edge, config, label)
        rows = runnable.Rows(config.to_out_var_pass)
        config = dataclasses.replace(config, passes=passes, to_out_var_pass=rows)
        config = writes.in_place(config, edge, programs)
        lowered = {name: edge.exported_program(name) for name in edge.methods}
        config = prefixes.in_place(config, lowered)
        try:
            with (
                size_questions.answered_for_all(*graphs),
                control_flow_bodies.without_gradients(programs),
                kernels.known_are_valid(),
                kernels.explained(lambda: _graphs(lowered), label),
            ):
                manager = edge.to_executorch(config)
        except Exception as error:
            explain_values(error, label)
            bounds.explain(error, programs, label)
            failing_call.explain(error, programs, attempt, label)
            raise
    runnable.check(manager, label)
    runnable.check_outputs(manager, programs, label)
    bounds.check_lowered(manager, inputs, label)
    state.check(manager, exported, changes, label)
    return manager


def _attempt(name: str, program: Any, spec: ModelSpec, recipe: ExportRecipe, label: str) -> None:
    """Lowers and emits a program that stands for a method, and says nothing."""
    config = recipe.executorch_backend_config or ExecutorchBackendConfig()
    programs = {name: program}
    with (
        size_questions.answered_for_all(program.graph),
        control_flow_bodies.without_gradients(programs),
        kernels.known_are_valid(),
        doubles.exact_numbers(),
    ):
        prepared = control_flow_bodies.prepared(programs, recipe, label)
        edge = undelegated.lowered(
            lambda: _lower(prepared, spec, recipe, False), recipe, prepared.values()
        )
        edge.to_executorch(config)


def _graphs(
    programs: Mapping[str, torch.export.ExportedProgram],
) -> dict[str, torch.fx.GraphModule]:
    return {name: program.graph_module for name, program in programs.items()}


def transform_sources(
    modules: Mapping[str, Any],
    recipe: ExportRecipe,
    label: str,
    noted: Callable[[str], None] = _unwatched,
) -> dict[str, Any]:
    """Applies torchao's quantization of a recipe to eager modules, for an export.

    Raises:
      BuildError: the recipe has several torchao configurations, or the model is exported already.
    """
    copies = quantized_sources(modules, recipe, label, noted)
    for name, module in copies.items():
        if module is not modules[name]:
            unwrap_tensor_subclass(module)
    return copies


def quantized_sources(
    modules: Mapping[str, Any],
    recipe: ExportRecipe,
    label: str,
    noted: Callable[[str], None] = _unwatched,
) -> dict[str, Any]:
    """Copies of eager modules as torchao quantizes them; themselves, if the recipe has none of it.

    Raises:
      BuildError: as for `transform_sources`; or weights are stored in another scheme.
    """
    configs = (
        recipe.quantization_recipe and recipe.quantization_recipe.ao_quantization_configs
    ) or []
    if not configs:
        stored_weights.put(modules, (), label, noted)
        return dict(modules)
    if len(configs) > 1 and not all(isinstance(c.filter_fn, OwnedLayers) for c in configs):
        raise BuildError(
            f"{label}: the recipe has {len(configs)} torchao configurations, which do not combine.",
            "Use a torchao.quantization.FqnToConfig, or one of them.",
        )
    for name, module in modules.items():
        if isinstance(module, torch.export.ExportedProgram):
            raise BuildError(
                f'{label}: the method "{name}" is an exported program, and the recipe '
                "quantizes the layers of an eager model (torchao).",
                "Use a PT2E recipe (int8_…), an fp32 recipe, or quantize before exporting.",
            )
    if recipe.quantization_recipe.is_qat:
        return _trained_sources(modules, recipe, label)
    # One copy of all methods together keeps what they share shared. Weights aren't copied: torchao
    # replaces them.
    weights = {id(p): p for module in modules.values() for p in module.parameters()}
    copies = {n: with_parent(m) for n, m in deep_copy(dict(modules), weights).items()}
    stored_weights.put(copies, configs, label, noted)
    for config in configs:
        _quantize_sources(copies, config)
    return copies


def prepared_sources(modules: Mapping[str, Any], recipe: ExportRecipe) -> dict[str, Any]:
    """Copies of eager modules with what imitates torchao's quantization while they are trained.

    Args:
      modules: by method; one.
      recipe: one for training, with one torchao configuration.

    Returns:
      By method a module that shares no weights with the one given.
    """
    [config] = recipe.quantization_recipe.ao_quantization_configs
    copies = {n: with_parent(m) for n, m in deep_copy(dict(modules), {}).items()}
    _quantize_sources(copies, training.steps(config)[0])
    for module in copies.values():
        training.mark(module, repr(config.ao_base_config))
    return copies


def _trained_sources(
    modules: Mapping[str, Any], recipe: ExportRecipe, label: str
) -> dict[str, Any]:
    [config] = recipe.quantization_recipe.ao_quantization_configs
    copies = prepared_sources(modules, recipe)
    for module in copies.values():
        training.train(recipe.quantization_recipe, module.train(), label)
    _quantize_sources(copies, training.steps(config)[1])
    return {name: module.eval() for name, module in copies.items()}


def _quantize_sources(copies: Mapping[str, torch.nn.Module], config: Any) -> None:
    once = _Once(config.filter_fn or _is_linear)
    seen: dict[int, torch.nn.Module] = {}
    for module in copies.values():
        if _names_layers(config):
            quantize_(_Unseen(module, seen), config.ao_base_config, None)
        else:
            quantize_(module, config.ao_base_config, once)
        seen.update((id(m), m) for m in module.modules())


def _names_layers(config: Any) -> bool:
    """Tells whether torchao finds the layers by name, in which case it takes no filter."""
    return hasattr(config.ao_base_config, "fqn_to_config")


def with_parent(module: torch.nn.Module) -> torch.nn.Module:
    """The module, or one around it: torchao replaces children, which a single layer is not."""
    return torch.nn.Sequential(module) if isinstance(module, torch.nn.Linear) else module


class _Once:
    """A torchao filter that takes a layer the first time that it meets it."""

    def __init__(self, inner: Callable[[torch.nn.Module, str], bool]) -> None:
        self._inner = inner
        self._seen: dict[int, torch.nn.Module] = {}

    def __call__(self, module: torch.nn.Module, name: str) -> bool:
        if id(module) in self._seen or not self._inner(module, name):
            return False
        if stored_weights.is_quantized(module):
            return False
        self._seen[id(module)] = module
        return True


class _Unseen:
    """A model for torchao to walk over by name: without the layers that another method has, too."""

    def __init__(self, module: torch.nn.Module, seen: Mapping[int, torch.nn.Module]) -> None:
        self._module = module
        self._seen = seen

    def named_modules(self) -> list[tuple[str, torch.nn.Module]]:
        """The layers that aren't quantized yet."""
        return [(n, m) for n, m in self._module.named_modules() if id(m) not in self._seen]


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
    requested = recipe.pipeline_stages or _DEFAULT
    makers = {
        StageType.TO_EDGE: stages.ToEdgeStage,
        StageType.TO_BACKEND: stages.ToBackendStage,
        StageType.TO_EDGE_TRANSFORM_AND_LOWER: stages.EdgeTransformAndLowerStage,
        StageType.EDGE_PROGRAM_MANAGER_TRANSFORM: stages.EdgeProgramManagerTransformStage,
    }
    pipeline = [makers[kind].from_recipe(lowering) for kind in requested if kind in makers]
    if not recipe.pipeline_stages and lowering and lowering.edge_manager_transform_passes:
        pipeline.append(stages.EdgeProgramManagerTransformStage.from_recipe(lowering))
    for stage in pipeline:
        stage.run(artifact)
        artifact = stage.get_artifacts()
    return artifact.data
