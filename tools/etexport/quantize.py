"""PT2E quantization of a recipe, with calibration inputs and dynamic shapes per method.

Quantizers are kept from integers and booleans, which observers cannot take. Some of upstream's
annotate every input of an operator that they know, token indices and masks of language models
included (Core ML's and OpenVINO's in 1.5.1); calibration then fails with '"histogram_cpu" not
implemented for Long'. Others turn the number of each `x + 1` into a tensor of float32 (XNNPACK's
and Vulkan's), so that positions and indices become floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from executorch.export import ExportRecipe, stages
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    DerivedQuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

from etexport import calibration
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


class FloatsOnly(Quantizer):
    """A quantizer that annotates as another one does, floating-point tensors only."""

    def __init__(self, inner: Quantizer) -> None:
        self._inner = inner

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """As the other one, but numbers that are added to integers stay numbers."""
        calls = {n: (n.target, n.args) for n in model.graph.nodes if _of_integers(n)}
        transformed = self._inner.transform_for_annotation(model)
        restored = [
            constant
            for node in transformed.graph.nodes
            if node in calls
            for constant in _restore(node, *calls[node])
        ]
        for constant in restored:
            _remove(transformed, constant)
        if restored:
            transformed.recompile()
        return transformed

    def annotate(self, model: GraphModule) -> GraphModule:
        """As the other one, without what is not of floats, or shares its scale with such."""
        annotated = self._inner.annotate(model)
        removed: set[Any] = set()
        for node in model.graph.nodes:
            removed |= _drop(node, _of_integers)
        while removed:
            gone, removed = removed, set()
            for node in model.graph.nodes:
                removed |= _drop(node, lambda _, spec, gone=gone: _refers(spec, gone))
        return annotated

    def validate(self, model: GraphModule) -> None:
        """As the other one."""
        self._inner.validate(model)

    def prepare_obs_or_fq_callback(self, model: GraphModule, observers: Any) -> None:
        """As the other one."""
        self._inner.prepare_obs_or_fq_callback(model, observers)


def _restore(node: Node, target: Any, args: tuple[Any, ...]) -> list[Node]:
    """Takes floating-point constants out of a call that had numbers there; the constants."""
    if node.target is not target or len(node.args) != len(args):
        return []
    constants = []
    for position, (before, after) in enumerate(zip(args, node.args, strict=True)):
        if isinstance(before, int | float) and isinstance(after, Node) and _is_float(after):
            node.update_arg(position, before)
            constants.append(after)
    return constants


def _remove(model: GraphModule, constant: Node) -> None:
    """Removes a constant that nothing uses any more, with its tensor."""
    if constant.op != "get_attr" or constant.users:
        return
    model.graph.erase_node(constant)
    if not any(n.op == "get_attr" and n.target == constant.target for n in model.graph.nodes):
        delattr(model, str(constant.target))


def _drop(node: Node, unwanted: Any) -> set[Any]:
    """Removes a node's unwanted annotations; the edges and nodes that had one."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    if annotation is None:
        return set()
    gone: set[Any] = set()
    for source, spec in list((annotation.input_qspec_map or {}).items()):
        if spec is not None and unwanted(source, spec):
            annotation.input_qspec_map[source] = None
            gone.add((source, node))
    if annotation.output_qspec is not None and unwanted(node, annotation.output_qspec):
        annotation.output_qspec = None
        gone.add(node)
    return gone


def _of_integers(node: Node, _spec: Any = None) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not value.dtype.is_floating_point


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


def _refers(spec: Any, gone: set[Any]) -> bool:
    if isinstance(spec, SharedQuantizationSpec):
        return spec.edge_or_node in gone
    if isinstance(spec, DerivedQuantizationSpec):
        return any(source in gone for source in spec.derived_from)
    return False
