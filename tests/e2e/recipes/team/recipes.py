"""Recipes of a team."""

from __future__ import annotations

import torch
from etbuild import RecipeContext
from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe


def linear_only(ctx: RecipeContext) -> ExportRecipe:
    """Static 8 bits for linear layers, and nothing else in XNNPACK."""
    quantizer = XNNPACKQuantizer().set_module_type(
        torch.nn.Linear, get_symmetric_quantization_config(is_per_channel=True)
    )
    partitioner = XnnpackPartitioner(
        config_precisions=ConfigPrecisionType.STATIC_QUANT, per_op_mode=True
    )
    return ExportRecipe(
        name="linear_only",
        quantization_recipe=QuantizationRecipe(quantizers=[quantizer]),
        lowering_recipe=LoweringRecipe(partitioners=[partitioner]),
    )


def without_dropout(base: ExportRecipe) -> ExportRecipe:
    """The base with a pass over the exported graph."""

    def remove(method: str, program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
        for node in list(program.graph.nodes):
            if node.target in (torch.ops.aten.dropout.default, torch.ops.aten.alias.default):
                node.replace_all_uses_with(node.args[0])
                program.graph.erase_node(node)
        return program

    base.aten_transform_passes = [*(base.aten_transform_passes or []), remove]
    return base


def doubled(ctx: RecipeContext) -> ExportRecipe:
    """Additions of a tensor to itself go to the team's backend."""
    from team.doubler import DoublerPartitioner

    return ExportRecipe(
        name="doubled", lowering_recipe=LoweringRecipe(partitioners=[DoublerPartitioner()])
    )
