"""Recipes for Cortex-M CPUs (executorch/backends/cortex_m); upstream has no recipes for it."""

from __future__ import annotations

from typing import Any

from etbuild import BuildError, RecipeContext
from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.target_config import CortexMTargetConfig
from executorch.exir.capture import ExecutorchBackendConfig
from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe


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
            _refuse_convolutions(program, name, ctx.label)
            passes = CortexMPassManager(program, target_config=target, use_explicit_layout=True)
            edge._edge_programs[name] = passes.transform()
        return []

    return ExportRecipe(
        name="cortex_m_int8",
        quantization_recipe=QuantizationRecipe(
            quantizers=[CortexMQuantizer(use_explicit_layout=True)]
        ),
        lowering_recipe=LoweringRecipe(
            edge_compile_config=cortex_m_edge_compile_config(),
            edge_manager_transform_passes=[transform],
        ),
        executorch_backend_config=ExecutorchBackendConfig(extract_delegate_segments=False),
    )


def _refuse_convolutions(program: Any, method: str, label: str) -> None:
    """Refuses transposed convolutions that CMSIS-NN has no kernel for.

    Upstream's quantizer leaves them in float, and one of its passes then fails.

    Raises:
      BuildError: a method has one.
    """
    for node in program.graph.nodes:
        if "aten.convolution.default" not in str(node.target) or not node.args[6]:
            continue
        dilation, output_padding, groups = node.args[5], node.args[7], node.args[8]
        lacking = [
            text
            for text, found in (
                (f"output padding {list(output_padding)}", any(output_padding)),
                (f"dilation {list(dilation)}", any(step != 1 for step in dilation)),
                (f"{groups} groups", groups > 1),
            )
            if found
        ]
        if lacking:
            raise BuildError(
                f'{label}: method "{method}": a transposed convolution has '
                f"{' and '.join(lacking)}, and CMSIS-NN's kernels take none.",
                "Use others: an output padding can be a larger kernel, or a padding of the result.",
            )
