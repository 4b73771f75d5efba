"""Recipes for MLX on Apple's GPUs (executorch/backends/mlx); upstream has no recipes for it."""

from __future__ import annotations

import mlx_guards
import torch
from etbuild import RecipeContext, groups_fit
from executorch.exir import EdgeCompileConfig
from executorch.export import (
    AOQuantizationConfig,
    ExportRecipe,
    LoweringRecipe,
    QuantizationRecipe,
)
from mlx_sources import load_upstream
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.quant_api import IntxWeightOnlyConfig


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """The precision of the weights."""
    return _made(ctx, "mlx_fp32")


def int8_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights of linear layers (torchao).

    Options:
      group_size: columns that share a scale: 32 (default), 64 or 128.
    """
    return _made(ctx, "mlx_int8_weight_only", torch.int8)


def int4_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights of linear layers (torchao).

    Options:
      group_size: columns that share a scale: 32 (default), 64 or 128.
    """
    return _made(ctx, "mlx_int4_weight_only", torch.int4)


def quantization(dtype: torch.dtype, group_size: int) -> QuantizationRecipe:
    """Weights of linear layers in few bits.

    Args:
      dtype: of a weight.
      group_size: columns that share a scale; 0: a channel does.
    """
    config = IntxWeightOnlyConfig(
        weight_dtype=dtype,
        granularity=PerGroup(group_size) if group_size else PerAxis(0),
        intx_choose_qparams_algorithm="hqq_scale_only",
    )
    fits = groups_fit(group_size or 1)
    return QuantizationRecipe(
        ao_quantization_configs=[AOQuantizationConfig(config, filter_fn=fits)]
    )


def _made(ctx: RecipeContext, name: str, dtype: torch.dtype | None = None) -> ExportRecipe:
    """A recipe; `dtype`: of linear layers' weights, None: no quantization."""
    chosen = None
    if dtype is not None:
        chosen = quantization(dtype, ctx.options.integer("group_size", default=32))
    upstream, passes = load_upstream(ctx.label)
    return ExportRecipe(
        name=name,
        quantization_recipe=chosen,
        lowering_recipe=LoweringRecipe(
            partitioners=[mlx_guards.partitioner(upstream)],
            edge_transform_passes=[lambda _method, _program: mlx_guards.passes(passes)],
            edge_compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
        ),
    )
