"""Upstream's XNNPACK recipes (executorch/backends/xnnpack/recipes) by the names of our targets.

Each takes these options:
  share_mutable_buffers: whether the methods of a program share their state, for example a KV cache;
    default false.
  enable_bf16: whether XNNPACK gets linear layers in bfloat16, for which the target's processor
    needs instructions; default false.
"""

from __future__ import annotations

import xnnpack_compiler
import xnnpack_configs
from etbuild import (
    RecipeContext,
    fold_constants,
    groups_fit,
    share_mutable_buffers,
    weight_only,
    write_out,
)
from etbuild.biases import own_biases, own_row_weights
from executorch.backends.xnnpack.partition.config import LinearConfig
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    get_symmetric_quantization_config,
)
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.export import ExportRecipe
from xnnpack_partitioner import GuardedXnnpackPartitioner
from xnnpack_quantizer import Quantizer, split_dynamic
from xnnpack_scales import keep_scales
from xnnpack_weights import own_layouts

# Settings of the quantizers of upstream's recipes, of which ours take more in dynamic ones.
_PT2E = {
    XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL: {"is_per_channel": True, "is_dynamic": True},
    XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL: {"is_per_channel": True, "is_dynamic": False},
    XNNPackRecipeType.PT2E_INT8_STATIC_PER_TENSOR: {"is_per_channel": False, "is_dynamic": False},
}

# XNNPACK's packed 4-bit kernels take groups in multiples of this many columns.
_GROUP_STEP = 32


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """No quantization."""
    return _made(ctx, XNNPackRecipeType.FP32)


def int8_dynamic_per_channel(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights with one scale a channel; activations are quantized as they come (PT2E)."""
    return _made(ctx, XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL)


def int8_static_per_channel(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights with one scale a channel, 8-bit activations; needs calibration (PT2E)."""
    return _made(ctx, XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL)


def int8_static_per_tensor(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights with one scale a tensor, 8-bit activations; needs calibration (PT2E)."""
    return _made(ctx, XNNPackRecipeType.PT2E_INT8_STATIC_PER_TENSOR)


def int8_dynamic_act_int4_weight_per_channel(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights with one scale a row, 8-bit dynamic activations (torchao)."""
    recipe = _made(ctx, XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL)
    return _filtered(recipe, _GROUP_STEP)


def int8_dynamic_act_int4_weight(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights with one scale a group of columns, 8-bit dynamic activations (torchao).

    Options:
      group_size: columns that share a scale; a multiple of 32; default 32.
    """
    group_size = ctx.options.integer("group_size", default=32)
    kind = XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR
    recipe = _made(ctx, kind, group_size=group_size)
    return _filtered(recipe, group_size)


def int8_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights of linear layers with one scale a row; each call converts them (torchao)."""
    return weight_only(_computed_weights(ctx), bits=8)


def int4_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights of linear layers; each call unpacks them (torchao).

    Options:
      group_size: columns that share a scale; even; default 32.
    """
    group_size = ctx.options.integer("group_size", default=32)
    return weight_only(_computed_weights(ctx), bits=4, group_size=group_size)


def _computed_weights(ctx: RecipeContext) -> ExportRecipe:
    """A recipe in whose linear layers XNNPACK takes weights that other operators compute."""
    recipe = _made(ctx, XNNPackRecipeType.FP32)
    for partitioner in recipe.lowering_recipe.partitioners:
        # Upstream's own option concerns the biases of convolutions, too, which then fail.
        linear = partitioner.target_partitioner_configs[LinearConfig.target_name]
        linear.force_non_static_weights_for_f32_linear = True
        # Nor has XNNPACK kernels for computed weights in bfloat16.
        linear.enable_bf16 = False
    return recipe


def _made(ctx: RecipeContext, kind: XNNPackRecipeType, **values: int) -> ExportRecipe:
    """Upstream's recipe of a kind; `values`: the options that it takes and others don't."""
    recipe = ExportRecipe.get_recipe(kind, **values)
    xnnpack_compiler.install()
    for partitioner in recipe.lowering_recipe.partitioners:
        partitioner.__class__ = GuardedXnnpackPartitioner
        configs = partitioner.target_partitioner_configs
        xnnpack_configs.install(configs, resizes_by_ratio=not ctx.exact("bilinear"))
        # XNNPACK has kernels in bfloat16 for few others, and programs with others don't load.
        linear = configs.get(LinearConfig.target_name)
        if linear is not None:
            linear.enable_bf16 = ctx.options.boolean("enable_bf16", default=False)
    if kind in _PT2E:
        settings = get_symmetric_quantization_config(**_PT2E[kind], is_qat=ctx.qat)
        recipe.quantization_recipe.quantizers = [Quantizer().set_global(settings)]
        recipe.quantization_recipe.is_qat = ctx.qat
        folds = [] if ctx.qat else [fold_constants]
        biases = [] if _PT2E[kind]["is_dynamic"] else [own_biases, own_row_weights]
        recipe.quantization_recipe.pre_prepare_passes = [*folds, *biases]
        converted = split_dynamic if _PT2E[kind]["is_dynamic"] else keep_scales
        recipe.quantization_recipe.post_convert_passes = [converted]
    exact = write_out(*ctx.exact("addmm", "gelu"), "hardtanh")
    recipe.aten_transform_passes = [*(recipe.aten_transform_passes or []), exact, own_layouts]
    if ctx.options.boolean("share_mutable_buffers", default=False):
        share_mutable_buffers(recipe, ctx.label)
    return recipe


def _filtered(recipe: ExportRecipe, multiple: int) -> ExportRecipe:
    # Upstream's recipe has no filter: one layer that is too small would fail the whole model.
    for config in recipe.quantization_recipe.ao_quantization_configs:
        config.filter_fn = groups_fit(multiple)
    return recipe
