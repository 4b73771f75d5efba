"""Recipes for GPUs with Vulkan (executorch/backends/vulkan); upstream has no recipes for it.

All take these options:
  small_texture_limits: whether textures stay within 2048 in each dimension, which desktops' GPUs
    and software drivers need; default false.
  require_dynamic_shapes: whether only operators are delegated that can be resized; default false.
  runtime: oldest version of ExecuTorch whose runtime shall run the programs, such as 1.3.1:
    operators that it lacks stay with ExecuTorch's own kernels; default: 1.3.1, the newest that
    packages for Android have, but for grid_sampler_2d, which needs 1.4.0.
"""

from __future__ import annotations

import re
from typing import Any

import torch
import vulkan_rows
from etbuild import RecipeContext, fold_constants, groups_fit, write_out
from executorch.backends.vulkan.quantizer.vulkan_quantizer import (
    VulkanQuantizer,
    get_symmetric_quantization_config,
)
from executorch.export import (
    AOQuantizationConfig,
    ExportRecipe,
    LoweringRecipe,
    QuantizationRecipe,
)
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torchao.quantization.granularity import PerGroup
from torchao.quantization.quant_api import (
    Int8DynamicActivationIntxWeightConfig,
    IntxWeightOnlyConfig,
)
from vulkan_guards import GuardedPartitioner
from vulkan_passes import KeptDimensions, install

# Rows of a matrix of 4-bit weights come in steps of this many.
_ROWS = 4
# Most elements of a texture in a dimension, and those with the option small_texture_limits.
_TEXTURE, _SMALL_TEXTURE = 16384, 2048
# Of etbuild.write_out, for 16-bit floats: roots come before the numbers below them are raised.
_OF_HALVES = (("half_rms_norm", "half_root"), ("half_guard", "half_range"))
_FLAGS = ("small_texture_limits", "require_dynamic_shapes")


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """The precision of the weights; what Vulkan can't take runs in portable kernels."""
    return _made(ctx, "vulkan_fp32")


def fp16(ctx: RecipeContext) -> ExportRecipe:
    """Weights and arithmetic in 16-bit floats; inputs and outputs keep their types."""
    return _made(ctx, "vulkan_fp16", {"force_fp16": True})


def int8_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights of linear layers with one scale a channel (PT2E)."""
    return _made(ctx, "vulkan_int8_weight_only", quantized={"is_dynamic": False, "weight_bits": 8})


def int8_dynamic(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights of linear layers; activations are quantized to 8 bits as they come (PT2E).

    No version of Vulkan's runtime has an operator for it: ExecuTorch's own kernels quantize the
    activations, and the GPU multiplies floats. Slower than int8_weight_only, and no smaller.
    """
    return _made(ctx, "vulkan_int8_dynamic", quantized={"is_dynamic": True, "weight_bits": 8})


def int4_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights of linear layers (torchao).

    Options:
      group_size: columns that share a scale; a multiple of 8; default 32.
    """
    return _in_groups(ctx, "vulkan_int4_weight_only", IntxWeightOnlyConfig, "granularity")


def int8_dynamic_act_int4_weight(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights of linear layers; activations are quantized to 8 bits as they come (torchao).

    Options:
      group_size: columns that share a scale; a multiple of 8; default 32.
    """
    config = Int8DynamicActivationIntxWeightConfig
    return _in_groups(ctx, "vulkan_int8_dynamic_act_int4_weight", config, "weight_granularity")


def _in_groups(ctx: RecipeContext, name: str, config: Any, granularity: str) -> ExportRecipe:
    """A recipe for weights of 4 bits; `granularity`: torchao's name of it in a `config`."""
    group_size = ctx.options.integer("group_size", default=32)
    made = config(weight_dtype=torch.int4, **{granularity: PerGroup(group_size)})
    recipe = _made(ctx, name)
    fits = groups_fit(group_size)
    # Upstream's pass pads the scales of other layers and then fails.
    fits.also = lambda module, _name: module.out_features % _ROWS == 0
    layers = AOQuantizationConfig(made, filter_fn=fits)
    recipe.quantization_recipe = QuantizationRecipe(ao_quantization_configs=[layers])
    vulkan_rows.install()
    joined = vulkan_rows.in_one_batch(ctx.label)
    recipe.aten_transform_passes = [*(recipe.aten_transform_passes or []), joined, _biases_apart]
    return recipe


def _fits(layer: Node, limit: int) -> bool:
    """Tells whether a layer's weight is no larger than a texture.

    Vulkan's runtime has no shader for larger ones with 8 bits: they stay in float.
    """
    return max(layer.args[1].meta["val"].shape) <= limit


def _biases_apart(method: str, program: ExportedProgram) -> ExportedProgram:
    """Adds the biases of layers with quantized weights by operators of their own.

    Vulkan's runtime (ExecuTorch 1.3.1) leaves them out of layers with 4-bit weights, without an
    error.
    """
    for module in program.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in list(module.graph.nodes):
            if node.target is torch.ops.aten.linear.default and _is_quantized_with_bias(node):
                _add_bias_after(node)
        module.recompile()
    return program


def _is_quantized_with_bias(layer: Node) -> bool:
    weight, *bias = layer.args[1:]
    return bool(bias) and bias[0] is not None and str(weight.target).startswith("torchao.")


def _add_bias_after(layer: Node) -> None:
    bias = layer.args[2]
    layer.args = layer.args[:2]
    with layer.graph.inserting_after(layer):
        added = layer.graph.call_function(torch.ops.aten.add.Tensor, (layer, bias))
    added.meta.update(layer.meta)
    layer.replace_all_uses_with(added, delete_user_cb=lambda user: user is not added)


def _made(
    ctx: RecipeContext,
    name: str,
    settings: dict[str, Any] | None = None,
    quantized: dict[str, Any] | None = None,
) -> ExportRecipe:
    """A recipe; `settings`: of the partitioner; `quantized`: of PT2E's quantizer, None: none."""
    install()
    given = {flag: ctx.options.boolean(flag, default=False) for flag in _FLAGS}
    chosen = {flag: True for flag, is_set in given.items() if is_set}
    runtime = ctx.options.text("runtime", default="")
    if runtime and not re.fullmatch(r"\d+\.\d+\.\d+", runtime):
        raise ctx.options.error("runtime", 'a version of ExecuTorch such as "1.3.1"')
    quantization = None
    if quantized is not None:
        quantizer = VulkanQuantizer()
        quantizer.set_global(get_symmetric_quantization_config(**quantized))
        limit = _SMALL_TEXTURE if chosen.get("small_texture_limits") else _TEXTURE
        quantizer.set_filter_function(lambda layer: _fits(layer, limit))
        # Layers whose weights are computed stay behind.
        folds = [] if ctx.qat else [fold_constants]
        quantization = QuantizationRecipe(quantizers=[quantizer], pre_prepare_passes=folds)
    # Beside the noise of 16 bits or of a quantization, the approximation of GELU is nothing.
    coarse = bool(settings) or quantization is not None or not ctx.exact("gelu")
    rules = (*(_OF_HALVES if settings else ()), ("negative_power", "power_root"))
    partitioner = GuardedPartitioner({**(settings or {}), **chosen}, runtime, inexact_gelu=coarse)
    return ExportRecipe(
        name=name,
        quantization_recipe=quantization,
        aten_transform_passes=[write_out(*names) for names in rules],
        lowering_recipe=LoweringRecipe(
            partitioners=[partitioner],
            edge_transform_passes=[lambda _method, _program: [KeptDimensions()]],
        ),
    )
