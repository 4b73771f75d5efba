"""Recipes for NXP's eIQ Neutron NPUs (executorch/backends/nxp); upstream has no recipes for it."""

from __future__ import annotations

from typing import Any

import torch
from etbuild import BuildError, RecipeContext
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig
from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe
from vendor_sdk import Sdk

_UPSTREAM = "executorch.backends.nxp."


def int8(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights, one scale a channel, and activations; needs calibration (PT2E).

    Options:
      target: the chip, as the SDK calls it; default imxrt700.
      fetch_constants_to_sram: whether weights are copied to SRAM as they are needed, for models
        that don't fit into it as a whole; default false.
      quantized_io: whether the program takes and gives integers, without the operators that
        quantize its inputs and outputs; default false.
      skip_ops: parts of names of nodes that Neutron doesn't get, with commas: "aten::add".
    """
    target = ctx.options.text("target", "imxrt700")
    to_sram = ctx.options.boolean("fetch_constants_to_sram", default=False)
    quantized_io = ctx.options.boolean("quantized_io", default=False)
    given = ctx.options.text("skip_ops", "")
    skipped = [part.strip() for part in given.split(",") if part.strip()]

    sdk = Sdk(ctx.label, "nxp", "NXP's eIQ Neutron SDK")
    sdk.need_modules("eiq_neutron_sdk")
    specs = sdk.imported(_UPSTREAM + "nxp_backend")
    targets = sdk.imported(_UPSTREAM + "backend.neutron_target_spec")
    managers = sdk.imported(_UPSTREAM + "edge_passes.neutron_edge_pass_manager")
    quantizers = sdk.imported(_UPSTREAM + "quantizer.neutron_quantizer")
    utils = sdk.imported(_UPSTREAM + "quantizer.utils")
    try:
        spec = targets.NeutronTargetSpec(target)
    except ValueError as error:
        raise BuildError(f'{ctx.label}: option "target": {error}') from error
    partitioner = sdk.imported(_UPSTREAM + "neutron_partitioner").NeutronPartitioner(
        specs.generate_neutron_compile_spec(
            target,
            fetch_constants_to_sram=to_sram,
            operators_not_to_delegate=skipped or None,
        ),
        spec,
        post_quantization_state_dict={},
    )

    def remembered(
        _method: str, program: torch.export.ExportedProgram
    ) -> torch.export.ExportedProgram:
        # What it partitions by are values of weights, and the graphs that it sees have none.
        partitioner.post_quantization_state_dict.update(program.state_dict)
        return program

    def with_integers(captured: torch.fx.GraphModule) -> torch.fx.GraphModule:
        utils._replace_histogram_observers_for_integer_inputs(captured)
        return captured

    def finished(manager: Any) -> Any:
        cleaning = _UPSTREAM + "edge_passes.remove_additional_quantize_dequantize_nodes_pass"
        passes = [sdk.imported(cleaning).RemoveAdditionalQDQClustersPass()]
        if quantized_io:
            bare = sdk.imported(_UPSTREAM + "edge_passes.remove_io_quant_ops_pass")
            passes.insert(0, bare.RemoveIOQuantOpsPass(edge_program_manager=manager))
        return managers.NeutronEdgePassManager(passes)

    return ExportRecipe(
        name="nxp_int8",
        quantization_recipe=QuantizationRecipe(
            quantizers=[quantizers.NeutronQuantizer(spec)],
            post_prepare_passes=[with_integers],
        ),
        aten_transform_passes=[remembered],
        lowering_recipe=LoweringRecipe(
            partitioners=[partitioner],
            edge_transform_passes=[lambda _method, _program: managers.NeutronEdgePassManager()],
            edge_manager_transform_passes=[finished],
            edge_compile_config=EdgeCompileConfig(
                _core_aten_ops_exception_list=specs.core_aten_ops_exception_list
            ),
        ),
        executorch_backend_config=ExecutorchBackendConfig(extract_delegate_segments=False),
    )
