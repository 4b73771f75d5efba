"""Upstream's Core ML recipes (executorch/backends/apple/coreml/recipes), by our targets' names.

All take these options:
  compute_unit: ALL (default), CPU_ONLY, CPU_AND_GPU or CPU_AND_NE: where Core ML may run it.
  minimum_deployment_target: iOS15 to iOS26, and the macOS of the same year: the oldest system that
    the program runs on; default: the oldest that has what the recipe uses. State, such as a KV
    cache, is Core ML's from iOS18 on; before, it stays with ExecuTorch.
  skip_ops: names of operators that Core ML doesn't get, with commas: "aten.add.tensor".
  lower_full_graph: whether it is an error if an operator can't be delegated; default false.
  take_over_constant_data: whether weights become part of the Core ML model; default true.
"""

from __future__ import annotations

from typing import Any

import coreml_compiler
import coreml_hardtanh
import coreml_reproducible
import coremltools as ct
import torch
from etbuild import BuildError, RecipeContext, groups_fit
from executorch.backends.apple.coreml.recipes import CoreMLRecipeProvider, CoreMLRecipeType
from executorch.export import ExportRecipe, LoweringRecipe


def fp32(ctx: RecipeContext) -> ExportRecipe:
    """32-bit floats: runs on CPU and GPU only."""
    return _made(ctx, CoreMLRecipeType.FP32)


def fp16(ctx: RecipeContext) -> ExportRecipe:
    """16-bit floats, which the Neural Engine takes; inputs and outputs keep their types."""
    return _made(ctx, CoreMLRecipeType.FP16)


def int8_static(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights and activations; needs calibration (PT2E); iOS17."""
    return _made(ctx, CoreMLRecipeType.PT2E_INT8_STATIC)


def int8_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights with one scale a channel (PT2E); iOS17."""
    return _made(ctx, CoreMLRecipeType.PT2E_INT8_WEIGHT_ONLY)


def int8_weight_only_per_channel(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights of linear layers with one scale a channel (torchao); iOS16."""
    return _made(ctx, CoreMLRecipeType.TORCHAO_INT8_WEIGHT_ONLY_PER_CHANNEL)


def int4_weight_only_per_channel(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights of linear layers with one scale a channel (torchao); iOS18."""
    return _made(ctx, CoreMLRecipeType.TORCHAO_INT4_WEIGHT_ONLY_PER_CHANNEL)


def int8_weight_only_per_group(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights of linear layers with one scale a group of columns (torchao); iOS18.

    Options:
      group_size: columns that share a scale; default 32.
    """
    return _grouped(ctx, CoreMLRecipeType.TORCHAO_INT8_WEIGHT_ONLY_PER_GROUP)


def int4_weight_only_per_group(ctx: RecipeContext) -> ExportRecipe:
    """4-bit weights of linear layers with one scale a group of columns (torchao); iOS18.

    Options:
      group_size: columns that share a scale; default 32.
    """
    return _grouped(ctx, CoreMLRecipeType.TORCHAO_INT4_WEIGHT_ONLY_PER_GROUP)


def codebook_weight_only(ctx: RecipeContext) -> ExportRecipe:
    """Weights of linear layers and embeddings as indices into tables (palettes); iOS18.

    Options:
      bits: of an index: 1, 2, 3, 4, 6 or 8; default 4.
      block_size: rows and columns that share a table, -1 for all: default "-1,16".
    """
    bits = ctx.options.integer("bits", default=4)
    given = ctx.options.text("block_size", default="-1,16")
    try:
        block_size = [int(part) for part in given.split(",")]
    except ValueError:
        block_size = []
    if len(block_size) != 2 or any(size != -1 and size < 1 for size in block_size):
        raise BuildError(
            f'{ctx.label}: option "block_size": got "{given}", wanted two numbers with a comma: '
            "rows and columns that share a table, -1 for all."
        )
    return _made(ctx, CoreMLRecipeType.CODEBOOK_WEIGHT_ONLY, bits=bits, block_size=block_size)


class _Provider(CoreMLRecipeProvider):
    """Upstream's, with two faults of 1.5.1 put right."""

    def _validate_and_set_deployment_target(
        self, kwargs: Any, min_target: ct.target, quantization_type: str
    ) -> None:
        # Upstream's sets the oldest one also where a newer one was asked for.
        given = kwargs.get("minimum_deployment_target")
        if given is not None and given < min_target:
            raise ValueError(
                f"minimum_deployment_target is {given.name}; {quantization_type} quantization "
                f"needs {min_target.name} or newer"
            )
        kwargs["minimum_deployment_target"] = given or min_target

    def _get_coreml_lowering_recipe(
        self, compute_precision: ct.precision = ct.precision.FLOAT16, **kwargs: Any
    ) -> LoweringRecipe:
        recipe = super()._get_coreml_lowering_recipe(compute_precision, **kwargs)
        target = kwargs.get("minimum_deployment_target")
        if target is None and not kwargs["lower_full_graph"]:
            # Upstream's gives Core ML the state of a model, which its oldest systems can't have.
            for partitioner in recipe.partitioners:
                partitioner.take_over_mutable_buffer = False
        return recipe


def _grouped(ctx: RecipeContext, kind: CoreMLRecipeType) -> ExportRecipe:
    group_size = ctx.options.integer("group_size", default=32)
    return _made(ctx, kind, group_size=group_size, filter_fn=groups_fit(group_size))


def _made(ctx: RecipeContext, kind: CoreMLRecipeType, **values: Any) -> ExportRecipe:
    """Upstream's recipe of a kind; `values`: what it takes and others don't."""
    coreml_reproducible.install()
    coreml_hardtanh.install()
    options = ctx.options
    unit = options.text("compute_unit", "ALL")
    skipped = [name.strip() for name in options.text("skip_ops", "").split(",") if name.strip()]
    chosen = options.text("minimum_deployment_target", "")
    settings = {
        "compute_unit": ct.ComputeUnit[unit],
        "lower_full_graph": options.boolean("lower_full_graph", default=False),
        "take_over_constant_data": options.boolean("take_over_constant_data", default=True),
        **({"skip_ops_for_coreml_delegation": skipped} if skipped else {}),
        **({"minimum_deployment_target": ct.target[chosen]} if chosen else {}),
        **values,
    }
    try:
        recipe = _Provider().create_recipe(kind, **settings)
    except (AssertionError, ValueError) as error:
        raise BuildError(f"{ctx.label}: {error}.") from error
    for partitioner in recipe.lowering_recipe.partitioners:
        coreml_compiler.install(partitioner)
    passes = recipe.aten_transform_passes or []
    recipe.aten_transform_passes = [*passes, _explicit_strides, _typed_fills]
    return recipe


def _explicit_strides(
    _method: str, program: torch.export.ExportedProgram
) -> torch.export.ExportedProgram:
    """Writes down the stride of poolings that have none: coremltools 9.0 demands it."""
    for node in program.graph.nodes:
        is_pooling = str(node.target).startswith(("aten.avg_pool", "aten.max_pool"))
        if is_pooling and len(node.args) == 2 and "stride" not in node.kwargs:
            node.args = (*node.args, node.args[1])
    return program


def _typed_fills(
    _method: str, program: torch.export.ExportedProgram
) -> torch.export.ExportedProgram:
    """Fills tensors of a type of their own by `full`.

    coremltools 9.0 gives those that are made like another tensor that one's type, or the number's:
    masks of attention become booleans.
    """
    aten = torch.ops.aten
    values = {aten.zeros_like.default: 0, aten.ones_like.default: 1, aten.full_like.default: None}
    for node in list(program.graph.nodes):
        result = node.meta.get("val")
        if node.target not in values or not all(isinstance(n, int) for n in result.shape):
            continue
        value = values[node.target]
        number = node.args[1] if value is None else value
        if result.dtype.is_floating_point:
            number = float(number)
        with program.graph.inserting_before(node):
            filled = program.graph.call_function(
                aten.full.default, (list(result.shape), number), {"dtype": result.dtype}
            )
        filled.meta.update(node.meta)
        node.replace_all_uses_with(filled)
        program.graph.erase_node(node)
    program.graph_module.recompile()
    return program
