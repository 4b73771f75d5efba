"""Upstream's XNNPACK recipes (executorch/backends/xnnpack/recipes) by the names of our targets.

Each takes the option `share_mutable_buffers`: whether the methods of a program share their state,
for example a KV cache; default false.
"""

from __future__ import annotations

from etbuild import RecipeContext, groups_fit, share_mutable_buffers
from executorch.backends.xnnpack.partition.config import MaxDimConfig
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.export import ExportRecipe
from torch.export import ExportedProgram
from torch.fx import Node

# Upstream's recipes have no quantizers for training; these are the settings of theirs.
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


def _made(ctx: RecipeContext, kind: XNNPackRecipeType, **values: int) -> ExportRecipe:
    """Upstream's recipe of a kind; `values`: the options that it takes and others don't."""
    recipe = ExportRecipe.get_recipe(kind, **values)
    for partitioner in recipe.lowering_recipe.partitioners:
        configs = partitioner.target_partitioner_configs
        upstreams = configs.get(MaxDimConfig.target_name)
        if upstreams is not None:
            configs[MaxDimConfig.target_name] = ours = _MaxDim()
            ours.enabled_precision_types = upstreams.enabled_precision_types
    if ctx.qat and kind in _PT2E:
        quantizer = XNNPACKQuantizer()
        settings = get_symmetric_quantization_config(**_PT2E[kind], is_qat=True)
        recipe.quantization_recipe.quantizers = [quantizer.set_global(settings)]
        recipe.quantization_recipe.is_qat = True
    if ctx.options.boolean("share_mutable_buffers", default=False):
        share_mutable_buffers(recipe, ctx.label)
    return recipe


class _MaxDim(MaxDimConfig):
    """Maxima that XNNPACK's backend computes.

    Upstream's (1.5.1) takes others, too, and its operator (op_max_dim.py) then fails the lowering.
    """

    def check_constraints(self, node: Node, ep: ExportedProgram) -> bool:
        _, *dim_and_kept = node.args
        return dim_and_kept in ([2, True], [3, True]) and super().check_constraints(node, ep)


def _filtered(recipe: ExportRecipe, multiple: int) -> ExportRecipe:
    # Upstream's recipe has no filter: one layer that is too small would fail the whole model.
    for config in recipe.quantization_recipe.ao_quantization_configs:
        config.filter_fn = groups_fit(multiple)
    return recipe
