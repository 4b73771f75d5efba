"""Upstream's recipes for Arm (executorch/backends/arm/recipes) by the names of our targets.

Those for Ethos-U take these options, which are vela's:
  macs: multiply-accumulate units; default 128 for U55, 256 for U65 and U85.
  system_config: system of Arm/vela.ini: clock and memories; default: the high end of the family.
  memory_mode: memory mode of Arm/vela.ini; default Shared_Sram for U55, Dedicated_Sram_384KB for
    U65, Sram_Only for U85.
  extra_flags: more flags of vela, with spaces: "--optimise Size".

Those that quantize take one more:
  quantize_scope: full (default), or linear: the layers `torch.nn.Linear` only; what has floats then
    stays with ExecuTorch.
"""

from __future__ import annotations

import copy
import shlex
from typing import Any

import arm_guards
import arm_moves
import arm_partitions
import arm_places
import arm_scores
import torch
from arm_estimates import keep_estimates
from arm_scales import keep_scales
from etbuild import BuildError, RecipeContext, fold_constants, static_shapes, write_out
from etbuild.exact import write_out_before_quantization
from etbuild.recipes import static_captured
from etbuild.recurrent import CELLS, write_out_recurrent
from etbuild.single_numbers import store_single_numbers
from etbuild.transposed import split_groups
from etlower import constant_results, operators
from executorch.backends.arm.quantizer.arm_quantizer import (
    get_symmetric_a16w8_quantization_config,
)
from executorch.backends.arm.recipes import ArmRecipeType
from executorch.export import ExportRecipe
from torch._subclasses.fake_tensor import FakeTensor


def tosa_fp(ctx: RecipeContext) -> ExportRecipe:
    """TOSA 1.0 with floats, for tools that read TOSA."""
    return _made(ctx, ArmRecipeType.TOSA_FP)


def tosa_int8(ctx: RecipeContext) -> ExportRecipe:
    """TOSA 1.0 with 8-bit weights, one scale a channel, and activations; needs calibration."""
    return _made(ctx, ArmRecipeType.TOSA_INT8)


def tosa_a16w8(ctx: RecipeContext) -> ExportRecipe:
    """TOSA 1.0 with 16-bit activations and 8-bit weights; needs calibration."""
    # Upstream's smallest scale (1.5.1) is 2 ** -12: of values below 8, 16 bits lose up to half. A
    # bias has 32 bits in steps of its input's scale and the weight's, so where the input is zero,
    # as the first state of a GRU, a finer scale than this one cuts biases of its size off.
    finer = get_symmetric_a16w8_quantization_config(is_per_channel=True, epsilon=2**-20)
    return _made(ctx, ArmRecipeType.TOSA_A16W8, finer)


def vgf_fp(ctx: RecipeContext) -> ExportRecipe:
    """VGF with floats, for GPUs with Vulkan's extensions for machine learning."""
    return _made(ctx, ArmRecipeType.VGF_FP)


def vgf_int8(ctx: RecipeContext) -> ExportRecipe:
    """VGF with 8-bit weights, one scale a channel, and activations; needs calibration."""
    return _made(ctx, ArmRecipeType.VGF_INT8)


def ethos_u55_int8(ctx: RecipeContext) -> ExportRecipe:
    """Ethos-U55: 8-bit weights and activations; needs calibration."""
    return _ethos_u(ctx, ArmRecipeType.ETHOS_U55_INT8)


def ethos_u65_int8(ctx: RecipeContext) -> ExportRecipe:
    """Ethos-U65: 8-bit weights and activations; needs calibration."""
    return _ethos_u(ctx, ArmRecipeType.ETHOS_U65_INT8)


def ethos_u85_int8(ctx: RecipeContext) -> ExportRecipe:
    """Ethos-U85: 8-bit weights and activations; needs calibration."""
    return _ethos_u(ctx, ArmRecipeType.ETHOS_U85_INT8)


def _ethos_u(ctx: RecipeContext, kind: ArmRecipeType) -> ExportRecipe:
    options = ctx.options
    values: dict[str, Any] = {}
    if "macs" in options:
        values["macs"] = options.integer("macs", default=0)
    for name in ("system_config", "memory_mode"):
        if name in options:
            values[name] = options[name]
    if "extra_flags" in options:
        values["extra_flags"] = shlex.split(options["extra_flags"])
    keep_estimates()
    return _made(ctx, kind, **values)


def _made(
    ctx: RecipeContext, kind: ArmRecipeType, config: Any = None, **values: Any
) -> ExportRecipe:
    """Upstream's recipe of a kind.

    Args:
      ctx: of the recipe.
      kind: upstream's name of it.
      config: replaces upstream's configuration of its quantizer.
      values: of the options that it takes.
    """
    arm_guards.install()
    arm_moves.install()
    arm_partitions.install()
    arm_places.install()
    try:
        recipe = ExportRecipe.get_recipe(kind, **values)
    except ValueError as error:
        raise BuildError(f"{ctx.label}: {error}.") from error
    if config is not None:
        for quantizer in recipe.quantization_recipe.quantizers:
            quantizer.set_global(config)
    if recipe.quantization_recipe:
        recipe.quantization_recipe.pre_prepare_passes = [
            static_captured(ctx.label, "TOSA"),
            _write_out_recurrent,
            split_groups,
            _write_out,
            fold_constants,
            _own_weights,
            store_single_numbers,
            _static_constants,
        ]
        recipe.quantization_recipe.post_convert_passes = [keep_scales]
        for quantizer in recipe.quantization_recipe.quantizers:
            # No compiler takes it, and its scale (1.5.1) ends at 1, where values may be larger.
            quantizer.set_node_target(torch.ops.aten.grid_sampler.default, None)
            arm_scores.observe(quantizer)
    if ctx.options.text("quantize_scope", "full", ("full", "linear")) == "linear":
        for quantizer in recipe.quantization_recipe.quantizers:
            config = quantizer.global_config
            quantizer.set_global(None).set_module_type(torch.nn.Linear, config)
        recipe.quantization_recipe.pre_prepare_passes.append(_index_puts)
    for partitioner in recipe.lowering_recipe.partitioners:
        checks = partitioner.additional_checks or []
        has_integers = partitioner.tosa_spec.support_integer()
        partitioner.additional_checks = [*checks, arm_guards.Taken(has_integers)]
        constant_results.leave(partitioner)
        arm_guards.fit_exchanged(partitioner)
        arm_guards.leave_rest(partitioner)
    passes = recipe.aten_transform_passes or []
    if not recipe.quantization_recipe:
        passes = [write_out("expm1", "negative_power", "no_batch", "power_root"), *passes]
    recipe.aten_transform_passes = [static_shapes(ctx.label, "TOSA"), *passes]
    return recipe


def _write_out(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Writes out what passes of ExecuTorch 1.5.1 fail on, or spoil once it has scales."""
    rules = ("attention_heads", "counted_back", "hardtanh", "integer_remainder", "log_softmax")
    write_out_before_quantization(graph, *rules, "norm_order")
    return graph


def _write_out_recurrent(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Writes out what upstream's passes do not: single steps, and LSTMs that project their state.

    Its pass for steps (ExecuTorch 1.5.1) fails on the second one of a loop.
    """
    lstm = torch.ops.aten.lstm.input
    states = [node.args[1] for node in graph.graph.nodes if node.target is lstm]
    shapes = [[state.meta["val"].shape for state in pair] for pair in states]
    projected = ["lstm.input"] if any(h != c for h, c in shapes) else []
    return write_out_recurrent(graph, *CELLS, *projected)


def _own_weights(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Copies the weights of convolutions whose result is multiplied.

    The quantizer's own pass (ExecuTorch 1.5.1) writes the product into them in place, and the next
    method of the model would read it.
    """
    for node in graph.graph.nodes:
        is_read = any(operators.packet(user) in ("mul", "mul_") for user in node.users)
        if operators.packet(node) in _CONVOLUTIONS and is_read:
            for weight in node.all_input_nodes:
                if weight.op == "get_attr":
                    path, _, name = str(weight.target).rpartition(".")
                    owner = graph.get_submodule(path)
                    setattr(owner, name, copy.deepcopy(getattr(owner, name)))
    return graph


_CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d", "convolution"})


def _static_constants(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Lets passes of the quantizer take sizes of constants as they are.

    The first pass that traces the graph again (ExecuTorch 1.5.1) otherwise gives buffers symbolic
    sizes, such as that of a cache or of what a norm averages over, which later passes refuse.
    """
    for node in graph.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, FakeTensor):
            value.fake_mode.static_shapes = True
    return graph


def _index_puts(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Copies to indices, such as a KV cache's, in the form whose indices may have 32 bits.

    Upstream's quantizer gives them 32, and writes out `index_copy` where it quantizes it only.
    """
    aten = torch.ops.aten
    forms = {aten.index_copy.default: aten.index_put, aten.index_copy_.default: aten.index_put_}
    for node in graph.graph.nodes:
        if node.target in forms:
            target, dim, index, source = node.args
            node.args = (target, [*[None] * dim, index], source)
            node.target = forms[node.target].default
    graph.recompile()
    return graph
