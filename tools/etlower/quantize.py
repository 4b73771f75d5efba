"""PT2E quantization of a recipe, with calibration inputs and dynamic shapes per method."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Mapping, Set
from operator import attrgetter
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec, size_questions
from etbuild.biases import fold_norms, own_weights
from etbuild.exact import write_out_before_quantization
from executorch.export import ExportRecipe, QuantizationRecipe, stages
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from etlower import (
    asked_infinities,
    calibration,
    grad_modes,
    infinities,
    separate_scales,
    training,
    written_state,
)
from etlower.annotations import FloatsOnly
from etlower.inputs import deep_copy
from etlower.methods import export_module
from etlower.state import check_before_quantization

# Of etbuild.write_out: quantizers take windows without a batch, and compilers have no kernel then.
# A slice that negative padding becomes later would have no scale, and a layer whose bias is not
# stored stays in floats, or goes without it.
_RULES = (
    *("computed_bias", "grouped_product", "negative_padding", "no_batch", "single_size"),
    "varying_factor",
)


def quantize(
    modules: Mapping[str, Any],
    spec: ModelSpec,
    recipe: ExportRecipe,
    label: str,
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Applies PT2E quantization of a recipe: capture, prepare, calibrate, convert.

    Args:
      modules: by method.
      spec: the model.
      recipe: with quantizers; others change nothing.
      label: of the model, for messages.
      note: is told what stays in float although the recipe quantizes it.

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
            name, module, spec.methods[name], recipe, inputs.get(name), state, label, note
        )
        for name, module in modules.items()
    }
    state.restore()
    return quantized


def quantized_weights(
    modules: Mapping[str, Any], spec: ModelSpec, recipe: ExportRecipe, label: str
) -> list[torch.Tensor]:
    """The weights that PT2E quantization of a recipe would quantize; nothing is calibrated.

    Args:
      modules: by method.
      spec: the model.
      recipe: with quantizers.
      label: of the model, for messages.

    Returns:
      The tensors of the modules.
    """
    quantization = recipe.quantization_recipe
    stage = stages.QuantizeStage(quantization)
    found: dict[str, torch.Tensor] = {}
    for name, module in modules.items():
        captured = _captured(name, module, spec.methods[name], label)
        captured = _passed(captured, quantization.pre_prepare_passes)
        quantizer = _quantizer(stage, quantization)
        graph = quantizer.transform_for_annotation(captured)
        quantizer.annotate(graph)
        for node in graph.graph.nodes:
            annotation = node.meta.get(Q_ANNOTATION_KEY)
            for source, qspec in ((annotation and annotation.input_qspec_map) or {}).items():
                if source.op == "get_attr" and qspec is not None:
                    found[f"{name}.{source.target}"] = attrgetter(str(source.target))(graph)
    return list(found.values())


def _passed(graph: Any, passes: Any) -> Any:
    """Runs passes of a recipe; None: it has none."""
    for change in passes or ():
        graph = change(graph)
    return graph


class _State:
    """The buffers of a model as they were before it was calibrated, which runs it."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def keep(self, module: torch.nn.Module, names: Set[str]) -> None:
        """Takes note of a module's buffers of these names, except those that are known."""
        for name, buffer in module.named_buffers():
            if name in names and id(buffer) not in self._before:
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
    note: Callable[[str], None],
) -> Any:
    quantization = recipe.quantization_recipe
    if quantization.is_qat:
        module_of_graph = prepared(name, module, method, recipe, label)
        training.train(quantization, module_of_graph, label)
        stages.move_exported_model_to_eval(module_of_graph)
    else:

        def run(graph: Callable[..., Any]) -> None:
            calibration.calibrate(name, graph, inputs, method, label)

        def keep_apart(graph: torch.fx.GraphModule) -> None:
            separate_scales.keep(graph, run, note)

        module_of_graph = _observed(name, module, method, recipe, label, state, keep_apart)
        watched = infinities.Watched(module_of_graph)
        run(module_of_graph)
        watched.end()
        if watched.names:

            def keep_all(graph: torch.fx.GraphModule) -> None:
                # What it notes was noted.
                separate_scales.keep(graph, run, lambda _: None)
                infinities.keep(graph, watched.names, note)

            module_of_graph = _observed(name, module, method, recipe, label, state, keep_all)
            run(module_of_graph)
    # Some backends want weights as they were, with the operators that quantize them. Upstream's
    # QuantizationRecipe has no field for it; a recipe of theirs may have.
    fold = getattr(quantization, "fold_quantize", True)
    # Registers kernels of what no part takes, for instance of results that follow from weights.
    importlib.import_module("executorch.kernels.quantized")
    with size_questions.answered_for_all(module_of_graph.graph):
        module_of_graph = _passed(module_of_graph, quantization.pre_convert_passes)
        converted = convert_pt2e(module_of_graph, fold_quantize=fold)
        return _passed(converted, quantization.post_convert_passes)


def prepared(name: str, module: Any, method: Method, recipe: ExportRecipe, label: str) -> Any:
    """A method's graph with what imitates its quantization while it is trained.

    Args:
      name: of the method.
      module: its module.
      method: the method.
      recipe: one for training: its `is_qat` is set.
      label: for messages.

    Returns:
      A torch.fx.GraphModule in training mode.
    """
    quantization = recipe.quantization_recipe
    stage = stages.QuantizeStage(quantization)
    if isinstance(module, torch.nn.Module):
        # Training would change the model, which what was trained is compared with.
        module = deep_copy(module, {}).train()
    captured = _captured(name, module, method, label)
    with size_questions.answered_for_all(captured.graph):
        captured = _passed(captured, quantization.pre_prepare_passes)
        graph = prepare_qat_pt2e(captured, _quantizer(stage, quantization))
        graph = _passed(graph, quantization.post_prepare_passes)
    stages.allow_exported_model_train_eval(graph)
    stages.move_exported_model_to_train(graph)
    training.mark(graph, training.of_observers(graph))
    return graph


def _observed(
    name: str,
    module: Any,
    method: Method,
    recipe: ExportRecipe,
    label: str,
    state: _State,
    annotated: Callable[[torch.fx.GraphModule], None],
) -> Any:
    """A method's graph with observers, to be calibrated; `annotated`: sees it without them."""
    quantization = recipe.quantization_recipe
    stage = stages.QuantizeStage(quantization)
    captured = fold_norms(_captured(name, module, method, label))
    quantizer = _quantizer(stage, quantization, annotated)
    with size_questions.answered_for_all(captured.graph):
        captured = _passed(captured, quantization.pre_prepare_passes)
        names = {name for name, _ in captured.named_buffers()}
        state.keep(captured, names)
        observed = _passed(prepare_pt2e(captured, quantizer), quantization.post_prepare_passes)
    # Some quantizers make a graph of their own, with buffers of its own.
    state.keep(observed, names)
    return observed


def _quantizer(
    stage: Any,
    quantization: QuantizationRecipe,
    annotated: Callable[[torch.fx.GraphModule], None] = lambda _: None,
) -> FloatsOnly:
    inner = stage._get_quantizer_for_prepare_pt2e(quantization.quantizers)
    return FloatsOnly(inner, annotated)


def capture(name: str, module: Any, method: Method, label: str) -> torch.export.ExportedProgram:
    """Exports a method as PT2E wants it: unlike `methods.export` with gradients.

    It has none where Dynamo fails on gradients that the model defines (`torch.autograd.Function`).
    """
    is_strict = method.strict is not False
    try:
        return export_module(name, module, method, is_strict, label)
    except BuildError:
        if not is_strict:
            raise
        with contextlib.suppress(BuildError), torch.no_grad():
            return export_module(name, module, method, is_strict, label)
        raise


def _captured(name: str, module: Any, method: Method, label: str) -> Any:
    # Guards are a call of a module, which the passes of some quantizers don't know.
    if not isinstance(module, torch.export.ExportedProgram):
        program = capture(name, module, method, label)
        check_before_quantization(name, program, label)
        return _own(program)
    if module.range_constraints:
        raise BuildError(
            f'{label}: the method "{name}" is an exported program with dynamic shapes, and '
            "the recipe quantizes it, which needs a new export.",
            "Give the model's code instead, or an exported program with static shapes.",
        )
    return _own(module)


def _own(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    """A program's graph, in which each call has weights of its own and copies write state."""
    with size_questions.answered_for_all(program.graph):
        graph = _inlined(program)
        if written_state.needs_functional(graph):
            graph = _inlined(program.run_decompositions({}))
        asked_infinities.write_out(graph)
        write_out_before_quantization(graph, *_RULES)
        return written_state.write_by_copies(own_weights(graph))


def _inlined(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    graph = program.module(check_guards=False)
    grad_modes.inline_regions(graph)
    written_state.take_constants(graph, program.graph_signature.lifted_tensor_constants)
    return graph
