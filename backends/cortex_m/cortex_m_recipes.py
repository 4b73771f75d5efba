"""Recipes for Cortex-M CPUs (executorch/backends/cortex_m); upstream has no recipes for it."""

from __future__ import annotations

import operator
import re
from typing import Any

import torch
from etbuild import RecipeContext, fold_constants
from etbuild.exact import has_channels_last, write_out_before_quantization
from etbuild.single_numbers import store_single_numbers
from etbuild.transposed import fill_weights, split_groups
from etlower import operators
from etlower.annotations import drop, drop_references
from etlower.replacing import replaced
from executorch.backends.arm._passes import ComputeConstantOpsAOTPass, FoldAndAnnotateQParamsPass
from executorch.backends.arm.common.annotation_meta import ArmAnnotationInfo
from executorch.backends.arm.constants import DQ_OPS
from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
from executorch.backends.cortex_m.passes.activation_fusion_pass import ActivationFusionPass
from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
from executorch.backends.cortex_m.passes.explicit_layout_pass import (
    ValidateCortexMExplicitLayoutPass,
)
from executorch.backends.cortex_m.passes.matmul_to_bmm_pass import MatmulToBmmPass
from executorch.backends.cortex_m.passes.passes_utils import (
    get_activation_bounds,
    is_channel_broadcast,
    quantize_val,
    skips_quantized_max_pool2d,
)
from executorch.backends.cortex_m.passes.quantized_clamp_activation_pass import (
    QuantizedClampActivationPass,
)
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.target_config import CortexMTargetConfig
from executorch.backends.transforms.remove_getitem_op import RemoveGetItemPass
from executorch.exir.capture import ExecutorchBackendConfig
from executorch.exir.dialects._ops import ops
from executorch.exir.pass_base import ExportPass
from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe
from torch.fx.passes.infra.pass_base import PassResult

# The type of a bias while upstream's passes work on a graph; see `_NarrowBiases`.
_BIAS = "true_bias"
_MARK = ArmAnnotationInfo.CUSTOM_META_KEY


def int8(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights and activations in CMSIS-NN's kernels; needs calibration (PT2E).

    Options:
      cpu: m0plus, m3, m4, m7, m23, m33, m35p, m55 or m85: sizes of buffers and the choice of
        kernels depend on it; default m55.
    """
    cpu = ctx.options.text("cpu", "m55")
    target = CortexMTargetConfig.from_target_string("cortex-" + cpu)

    def transform(edge: Any) -> list[Any]:
        for name in sorted(edge.methods):
            program = edge.exported_program(name)
            passes = CortexMPassManager(program, passes=_passes(), target_config=target)
            edge._edge_programs[name] = _with_true_types(passes.transform())
        return []

    return ExportRecipe(
        name="cortex_m_int8",
        quantization_recipe=QuantizationRecipe(
            quantizers=[_Quantizer(use_explicit_layout=True)],
            pre_prepare_passes=[
                _in_rows,
                split_groups,
                fill_weights,
                fold_constants,
                store_single_numbers,
                _write_out,
            ],
        ),
        lowering_recipe=LoweringRecipe(
            edge_compile_config=cortex_m_edge_compile_config(),
            edge_manager_transform_passes=[transform],
        ),
        executorch_backend_config=ExecutorchBackendConfig(extract_delegate_segments=False),
    )


def _in_rows(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Has a graph compute in rows, whose pictures upstream's passes (ExecuTorch 1.5.1) turn.

    They fail on those whose channels lie last.
    """
    last, rows = torch.channels_last, torch.contiguous_format
    for node in graph.graph.nodes:
        node.args = tuple(rows if each is last else each for each in node.args)
        node.kwargs = {key: rows if each is last else each for key, each in node.kwargs.items()}
    for node in graph.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and has_channels_last(value):
            with graph.graph.inserting_after(node):
                copy = graph.graph.call_function(
                    torch.ops.aten.clone.default, (node,), {"memory_format": rows}
                )
            copy.meta = {**node.meta, "val": value.contiguous()}
            node.replace_all_uses_with(copy, lambda user, copy=copy: user is not copy)
    graph.recompile()
    return graph


def _write_out(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Writes out activations that are part of no layer's kernel or name no bound, and steps."""
    write_out_before_quantization(graph, "hard_sigmoid", "hardtanh", "window_strides")
    return graph


def _passes() -> list[type]:
    """Upstream's passes, and ours."""
    ours: dict[type, list[type]] = {
        RemoveGetItemPass: [_TakeMaxima],
        FoldAndAnnotateQParamsPass: [_Unmark, _Fold, _NarrowBiases],
        ActivationFusionPass: [_Fuse],
        QuantizedClampActivationPass: [_CountBounds],
        ValidateCortexMExplicitLayoutPass: [_Expand, _Validate],
    }
    return [
        own
        for each in CortexMPassManager.explicit_layout_pass_list
        for own in ours.get(each, [each])
    ]


class _MatmulToBmm(MatmulToBmmPass):
    """Leaves products with constants, on which upstream's pass (ExecuTorch 1.5.1) fails."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        """See upstream's pass."""
        if any(isinstance(given, torch.Tensor) for given in args):
            return ExportPass.call_operator(self, op, args, kwargs, meta)
        return super().call_operator(op, args, kwargs, meta)


class _PassesBefore(CortexMPassManager):
    """Upstream's passes on a graph that is to be quantized, and ours."""

    pass_list_transform_for_annotation = [
        _MatmulToBmm if each is MatmulToBmmPass else each
        for each in CortexMPassManager.pass_list_transform_for_annotation
    ]


class _Quantizer(CortexMQuantizer):
    """Upstream's quantizer, for 32-bit floats: its kernels take and give no others."""

    def transform_for_annotation(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Prepares a captured graph."""
        return _PassesBefore(None).transform_for_annotation(model)

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Annotates a graph."""
        annotated = super().annotate(model)
        removed: set[Any] = set()
        for node in model.graph.nodes:
            # Their kernel would add up steps.
            sums = operators.adds_by_place(node)
            removed |= drop(node, lambda value, _, sums=sums: sums or _is_other_float(value))
        drop_references(model, removed)
        return annotated


def _is_other_float(node: torch.fx.Node) -> bool:
    return _is_float(node) and node.meta["val"].dtype != torch.float32


class _Expand(ExportPass):
    """Gives both sides of a sum, difference or product one shape, where no kernel broadcasts.

    The quantizer asks for channels in the second dimension, the kernels find them in the last.
    """

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        """Expands operands of 8 bits."""
        for node in graph_module.graph.nodes:
            given = [n for n in node.args[:2] if isinstance(n, torch.fx.Node)]
            if node.target not in _BROADCASTING or "output_qparams" not in node.meta:
                continue
            values = [n.meta["val"] for n in given]
            # Sizes that vary have no hash, and no order.
            if len({str(v.shape) for v in values}) < 2 or is_channel_broadcast(*values):
                continue
            shape = list(node.meta["val"].shape)
            for place, (one, value) in enumerate(zip(given, values, strict=True)):
                if str(list(value.shape)) != str(shape):
                    with graph_module.graph.inserting_before(node):
                        sizes = [_size(given, size, n - len(shape)) for n, size in enumerate(shape)]
                        target = ops.edge.aten.expand_copy.default
                        expanded = graph_module.graph.call_function(target, (one, sizes))
                    expanded.meta = {**one.meta, "val": value.expand(shape)}
                    node.update_arg(place, expanded)
        graph_module.recompile()
        return PassResult(super().call(graph_module).graph_module, True)


def _size(given: list[torch.fx.Node], size: Any, dim: int) -> Any:
    """A size in a dimension of a result, or where it varies, what reads it of an operand."""
    if isinstance(size, int):
        return size
    shapes = [(n, n.meta["val"].shape) for n in given]
    one = next(n for n, shape in shapes if len(shape) >= -dim and str(shape[dim]) == str(size))
    read = one.graph.call_function(torch.ops.aten.sym_size.int, (one, dim))
    read.meta["val"] = size
    return read


_BROADCASTING = frozenset(
    (ops.edge.aten.add.Tensor, ops.edge.aten.sub.Tensor, ops.edge.aten.mul.Tensor)
)


class _TakeMaxima(ExportPass):
    """Takes maxima over windows without their places for what CMSIS-NN computes.

    Upstream's pass (ExecuTorch 1.5.1) fails where the places are read, and makes `amax` of
    `max.dim` with a number for the dimensions, on which the kernel ends the process.
    """

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        """Replaces the calls whose places nothing reads."""
        edge = ops.edge.aten
        for node in list(graph_module.graph.nodes):
            users = list(node.users)
            if node.target != edge.max_pool2d_with_indices.default or not users:
                continue
            if any(user.target is not operator.getitem or user.args[1] for user in users):
                continue
            with graph_module.graph.inserting_before(node):
                target = edge.max_pool2d.default
                maxima = graph_module.graph.call_function(target, node.args, node.kwargs)
            maxima.meta = {**node.meta, **users[0].meta}
            for user in users:
                user.replace_all_uses_with(maxima)
                graph_module.graph.erase_node(user)
            graph_module.graph.erase_node(node)
        graph_module.recompile()
        return PassResult(super().call(graph_module).graph_module, True)


class _Fuse(ActivationFusionPass):
    """Fuses activations whose scale has steps that they never give.

    It does where the result is joined with one of other numbers, as by a residual connection.
    Upstream (ExecuTorch 1.5.1) leaves such an activation, and the layer before it without a scale.
    The kernels take bounds of their own.
    """

    def _get_validated_qparams(self, node: torch.fx.Node, input_node: torch.fx.Node) -> Any:
        """The scale of a layer with its activation, and the steps that it may give."""
        params, bounds = node.meta.get("output_qparams", {}).get(0), get_activation_bounds(node)
        if params is None or params.per_channel or bounds is None:
            return super()._get_validated_qparams(node, input_node)
        low, high = (
            end if bound is None else int(quantize_val(bound, params.scale, params.zp, *ends))
            for ends in [(params.qmin, params.qmax)]
            for bound, end in zip(bounds, ends, strict=True)
        )
        node.meta["output_qparams"] = {0: params._replace(qmin=low, qmax=high)}
        return super()._get_validated_qparams(node, input_node)


class _CountBounds(QuantizedClampActivationPass):
    """Counts bounds in steps behind functions that become tables, too (`x.sqrt().clamp(-1, 2)`).

    Upstream (ExecuTorch 1.5.1) goes by what such a function gives before that, which is floats. The
    bounds of steps then stay fractions.
    """

    def _is_quantized_int8_activation(self, node: torch.fx.Node) -> bool:
        """Tells whether an activation is given steps, and gives some."""
        params = [each.meta.get("output_qparams", {}).get(0) for each in (node.args[0], node)]
        if all(each is not None and not each.per_channel for each in params):
            return True
        return bool(super()._is_quantized_int8_activation(node))


class _Validate(ValidateCortexMExplicitLayoutPass):
    """Leaves to ExecuTorch's kernels what computes with floats, and maxima that CMSIS-NN has not.

    Upstream (ExecuTorch 1.5.1) fails on each convolution and pooling without a kernel on 8 bits. A
    maximum is the same with any scale.
    """

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        """Checks the other layers; the graph stays."""
        left = {
            node: node.target
            for node in graph_module.graph.nodes
            if node.op == "call_function" and (_is_float(node) or skips_quantized_max_pool2d(node))
        }
        for node in left:
            node.target = _left
        try:
            return super().call(graph_module)
        finally:
            for node, target in left.items():
                node.target = target


def _left(*args: Any, **kwargs: Any) -> None:
    """Stands for an operator that is not checked; it is never called."""


class _Unmark(ExportPass):
    """Takes operators for floats whose inputs or results have none of their scales.

    Those are behind a mask of -inf, write into state, compare, or give the places of maxima, too.

    Upstream's next pass goes by a mark of the quantizer, and would leave a kernel half of them.
    """

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        """Removes marks; the graph stays."""
        for node in graph_module.graph.nodes:
            marks = node.meta.get("custom", {})
            if _MARK in marks and _stays_float(node):
                node.meta["custom"] = {key: marks[key] for key in marks if key != _MARK}
        return PassResult(graph_module, True)


def _stays_float(node: torch.fx.Node) -> bool:
    """Tells whether an operator takes numbers that are no steps, or gives others than floats.

    A comparison would compare steps with its number (`x > 0.5`).
    """
    given = node.args[0] if node.args else None
    if node.target is operator.getitem:
        return _MARK not in given.meta.get("custom", {})
    if isinstance(given, torch.fx.Node) and given.op == "placeholder" and _is_float(given):
        return True
    if _LAYERS.search(str(node.target)) and not _is_stored(node.args[1]):
        return True
    if node.target == ops.edge.aten.constant_pad_nd.default and node.meta["val"].dim() > _PADDED:
        return True
    gives_others = not all(value.is_floating_point() for value in operators.values(node))
    return gives_others or any(map(_is_plain_float, node.all_input_nodes))


# Dimensions that the kernel of padding takes; upstream's pass (ExecuTorch 1.5.1) fails on more.
_PADDED = 4
_LAYERS = re.compile(r"aten\.(convolution|linear)\.")


def _is_stored(weight: torch.fx.Node) -> bool:
    """Tells whether a weight is a constant of the program, as the kernels want it."""
    while weight.target in DQ_OPS:
        weight = weight.args[0]
    return weight.op == "placeholder"


def _is_plain_float(node: torch.fx.Node) -> bool:
    """Tells whether a result has floats that stand for no steps of a scale."""
    # Operators of which others are made have their mark, those that only write numbers, too.
    is_marked = _MARK in node.meta.get("custom", {}) and bool(node.all_input_nodes)
    is_quantized = node.target in DQ_OPS or is_marked
    return _is_float(node) and node.op == "call_function" and not is_quantized


def _is_float(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()


class _Fold(FoldAndAnnotateQParamsPass):
    """Leaves tensors of one number (`full_like`) floats, as they are made.

    Upstream (ExecuTorch 1.5.1) has them take steps of 8 bits, and writes the number as one.
    """

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        """Folds the scales of all others."""
        upstream = FoldAndAnnotateQParamsPass.is_foldable

        def is_foldable(node: torch.fx.Node) -> bool:
            return node.target not in _CONSTANTS and upstream(node)

        with replaced((FoldAndAnnotateQParamsPass, "is_foldable", staticmethod(is_foldable))):
            return super().call(graph_module)


_CONSTANTS = (ops.edge.aten.full_like.default, *ComputeConstantOpsAOTPass.targeted_ops)


class _NarrowBiases(ExportPass):
    """Lets linear layers on 8 bits have results of 8 bits, as their kernel's are.

    Passes that trace the graph again (ExecuTorch 1.5.1) take a bias of 32 bits for an operand that
    widens the result, and fail where it is multiplied with another tensor of 8 bits: attention.
    """

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        """Changes what the graph knows of biases; their values stay."""
        for node in graph_module.graph.nodes:
            if "aten.linear.default" not in str(node.target) or len(node.args) < 3:
                continue
            bias = node.args[2]
            if (
                bias is not None
                and bias.op == "placeholder"
                and bias.meta["val"].dtype == torch.int32
            ):
                bias.meta[_BIAS] = bias.meta["val"]
                bias.meta["val"] = bias.meta["val"].to(torch.int8)
        return PassResult(graph_module, True)


def _with_true_types(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Gives biases that passes had narrowed their own types again."""
    for node in program.graph.find_nodes(op="placeholder"):
        if _BIAS in node.meta:
            node.meta["val"] = node.meta.pop(_BIAS)
    return program
