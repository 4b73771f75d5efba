"""Recipes for Cadence's DSPs (executorch/backends/cadence); upstream has no recipes for it.

All take the option `mode`, the goal of the passes of upstream's compiler: default, minimal (only
the required passes) or size (kernels for the types that occur, instead of kernels that check types
at run time).
"""

from __future__ import annotations

import typing
from typing import Any

import torch
import typing_extensions
from etbuild import BuildError, RecipeContext, fold_constants, write_out
from etbuild.biases import own_biases
from etbuild.exact import write_out_before_quantization
from etlower.replacing import replace
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig
from executorch.exir.passes import ToOutVarPass
from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass
from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe
from torchao.quantization.pt2e import allow_exported_model_train_eval

# Upstream's compiler for Cadence imports `override` from typing, which has it from Python 3.12 on.
# It is a decorator that does nothing.
if not hasattr(typing, "override"):
    typing.override = typing_extensions.override

from cadence_passes import (
    Branches,
    Convolutions,
    Products,
    Repeats,
    ResultShapes,
    ScalarTensors,
    WholeWindows,
    compute_sizes,
    count_from_start,
)
from executorch.backends.cadence.aot import (
    compiler,
    compiler_funcs,
    memory_planning,
    passes,
    reorder_ops,
    replace_ops,
)
from executorch.backends.cadence.aot.memory_constraints import MemConstraints
from executorch.backends.cadence.aot.pass_utils import CompileMode
from executorch.backends.cadence.aot.quantizer import quantizer as quantizers
from executorch.backends.cadence.aot.utils import get_default_memory_config

# It fills tensors with the largest number instead, for a profiler.
_OF_INFINITIES = replace_ops.ReplaceInfArgInFullWithValuePass
# By the values of the option `quantizer`.
_QUANTIZERS = {
    "default": quantizers.CadenceDefaultQuantizer,
    "fused_conv_relu": quantizers.CadenceFusedConvReluQuantizer,
    "int16_conv": quantizers.CadenceWith16BitConvActivationsQuantizer,
    "int16_linear": quantizers.CadenceWith16BitLinearActivationsQuantizer,
    "int16_matmul": quantizers.CadenceWith16BitMatmulActivationsQuantizer,
    "layer_norm": quantizers.CadenceWithLayerNormQuantizer,
    "softmax": quantizers.CadenceWithSoftmaxQuantizer,
    "wake_word": quantizers.CadenceWakeWordQuantizer,
    "weight_only": quantizers.CadenceW8A32MixedQuantizer,
}


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """32-bit floats."""
    return _made(ctx, "cadence_fp32", None)


def int8(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights and activations; needs calibration (PT2E).

    Options:
      quantizer: which layers are quantized, and how. default: linear layers, convolutions, matrix
        products, max pooling and ReLU. layer_norm, softmax (in 16 bits), wake_word (additions and
        concatenations): these, too. fused_conv_relu: as wake_word, and ReLU becomes part of the
        convolution or addition before it. int16_linear, int16_conv, int16_matmul: only these, in 16
        bits. weight_only: the weights of linear layers, convolutions and GRUs; experimental
        upstream, and it leaves many of them as they are.
    """
    kind = ctx.options.text("quantizer", "default")
    return _made(ctx, "cadence_int8", _QUANTIZERS[kind]())


def _pass(made: Any) -> Any:
    return lambda graph: made()(graph)


def _leave_views_of_state() -> None:
    """Has the runtime place views of state that is written to: upstream fails to plan them."""

    def add(inner: Any, self: Any, source: Any, dependent: Any, *rest: Any, **named: Any) -> None:
        if None not in dependent.meta["spec"].lifetime:
            inner(self, source, dependent, *rest, **named)

    replace(MemConstraints, "add_relative_placement_constraint", add)


def _made(ctx: RecipeContext, name: str, quantizer: Any) -> ExportRecipe:
    """A recipe; `quantizer`: one of upstream's, or None."""
    mode = CompileMode[ctx.options.text("mode", "default").upper()]
    _leave_views_of_state()

    def decomposed(captured: torch.fx.GraphModule) -> torch.fx.GraphModule:
        values = [n.meta["val"] for n in captured.graph.nodes if n.op == "placeholder"]
        if any(not isinstance(size, int) for value in values for size in value.shape):
            raise BuildError(
                f"{ctx.label}: a method has dynamic shapes, and Cadence's quantizers take static "
                "ones only.",
                "Give the model methods of fixed sizes (without dynamic_shapes).",
            )
        fold_constants(captured)
        write_out_before_quantization(captured, "computed_weights", "product_batches")
        inputs = tuple(torch.zeros(value.shape, dtype=value.dtype) for value in values)
        # The tracer calls its method eval.
        allow_exported_model_train_eval(captured)
        kept = quantizer.get_ops_to_preserve_from_decomposition()
        traced = compiler_funcs.trace(captured, inputs, strict=True, ops_to_keep=kept)
        graph = traced.module(check_guards=False)
        # Upstream's pass on layouts wants strides.
        write_out_before_quantization(graph, "window_strides")
        return own_biases(graph)

    def fused(_method: str, program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
        if quantizer is None:
            return passes.apply_torch_ops_passes(program)
        # The patterns that it was quantized by are those that become kernels.
        return compiler.apply_pre_edge_transform_passes(program, quantizer)

    def optimized(_manager: Any) -> list[Any]:
        own = {
            reorder_ops.AdvanceQuantizeOpAboveDefInBranchPass: Branches,
            replace_ops.ReplaceAtenConvolutionWithCadenceConvolutionPass: Convolutions,
            replace_ops.ReplaceMMWithAddMMPass: Products,
            replace_ops.ReplaceRepeatWithCatPass: Repeats,
            replace_ops.ReplaceScalarTensorWithFullPass: ScalarTensors,
            replace_ops.ReplaceTrivialConvWithLinear: WholeWindows,
        }
        classes = [
            own.get(made, made)
            for made in passes.get_passes(mode, None)
            if made is not _OF_INFINITIES
        ]
        shapes = ResultShapes()
        upstream = (_pass(made) for made in classes)
        return [count_from_start, shapes.note, *upstream, shapes.restore, compute_sizes]

    quantization = None
    if quantizer is not None:
        quantization = QuantizationRecipe(quantizers=[quantizer], pre_prepare_passes=[decomposed])
    return ExportRecipe(
        name=name,
        quantization_recipe=quantization,
        # Its averages take batches only, and leave out what a window has of the padding.
        aten_transform_passes=[
            *(write_out(rule) for rule in ("no_batch", "padded_average", "product_type")),
            fused,
        ],
        lowering_recipe=LoweringRecipe(
            edge_compile_config=EdgeCompileConfig(
                _skip_dim_order=True,
                _core_aten_ops_exception_list=compiler.TO_EDGE_OP_EXCEPTION_LIST,
            ),
            edge_manager_transform_passes=[optimized],
        ),
        executorch_backend_config=ExecutorchBackendConfig(
            # In other modes slices and concatenations become operators that do nothing, such as
            # aten::_cat_nop, of which Cadence's public kernels (1.5.1) have none.
            memory_planning_pass=memory_planning.CadenceMemoryPlanning(
                get_default_memory_config(), mode=CompileMode.MINIMAL, mem_algo=0
            ),
            emit_stacktrace=False,
            to_out_var_pass=ToOutVarPass(),
            extract_delegate_segments=False,
            sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass(),
        ),
    )
