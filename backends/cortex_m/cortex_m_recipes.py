"""Recipes for Cortex-M CPUs (executorch/backends/cortex_m); upstream has no recipes for it."""

from __future__ import annotations

from typing import Any

import torch
from etbuild import BuildError, RecipeContext, fold_constants
from executorch.backends.arm._passes import FoldAndAnnotateQParamsPass
from executorch.backends.arm.common.annotation_meta import ArmAnnotationInfo
from executorch.backends.arm.constants import DQ_OPS
from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.target_config import CortexMTargetConfig
from executorch.exir.capture import ExecutorchBackendConfig
from executorch.exir.pass_base import ExportPass
from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe
from torch.fx.passes.infra.pass_base import PassResult

# The type of a bias while upstream's passes work on a graph; see `_NarrowBiases`.
_BIAS = "true_bias"
_MARK = ArmAnnotationInfo.CUSTOM_META_KEY


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
            passes = CortexMPassManager(program, passes=_passes(), target_config=target)
            edge._edge_programs[name] = _with_true_types(passes.transform())
        return []

    return ExportRecipe(
        name="cortex_m_int8",
        quantization_recipe=QuantizationRecipe(
            quantizers=[CortexMQuantizer(use_explicit_layout=True)],
            pre_prepare_passes=[fold_constants],
        ),
        lowering_recipe=LoweringRecipe(
            edge_compile_config=cortex_m_edge_compile_config(),
            edge_manager_transform_passes=[transform],
        ),
        executorch_backend_config=ExecutorchBackendConfig(extract_delegate_segments=False),
    )


def _passes() -> list[type]:
    """Upstream's passes, and ours."""
    passes = list(CortexMPassManager.explicit_layout_pass_list)
    place = passes.index(FoldAndAnnotateQParamsPass)
    passes[place : place + 1] = [_Unmark, FoldAndAnnotateQParamsPass, _NarrowBiases]
    return passes


class _Unmark(ExportPass):
    """Takes operators for floats whose inputs have none of their scales, as behind a mask of -inf.

    Upstream's next pass goes by a mark of the quantizer, and would leave a kernel half of them.
    """

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        """Removes marks; the graph stays."""
        for node in graph_module.graph.nodes:
            marks = node.meta.get("custom", {})
            if _MARK in marks and any(map(_is_plain_float, node.all_input_nodes)):
                node.meta["custom"] = {key: marks[key] for key in marks if key != _MARK}
        return PassResult(graph_module, True)


def _is_plain_float(node: torch.fx.Node) -> bool:
    """Tells whether a result has floats that stand for no steps of a scale."""
    value = node.meta.get("val")
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    is_quantized = node.target in DQ_OPS or _MARK in node.meta.get("custom", {})
    return is_float and node.op == "call_function" and not is_quantized


class _NarrowBiases(ExportPass):
    """Lets linear layers on 8 bits have results of 8 bits, as their kernel's are.

    Passes that trace the graph again (ExecuTorch 1.5.1) take a bias of 32 bits for an operand that
    widens the result, and fail where it is multiplied with another tensor of 8 bits: attention.
    """

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        """Changes what the graph knows of biases; their values stay."""
        for node in graph_module.graph.nodes:
            if "aten.linear.default" not in str(node.target) or len(node.args) < 3:
                continue
            bias = node.args[2]
            if (
                bias is not None
                and bias.op == "placeholder"
                and bias.meta["val"].dtype == torch.int32
            ):
                bias.meta[_BIAS] = bias.meta["val"]
                bias.meta["val"] = bias.meta["val"].to(torch.int8)
        return PassResult(graph_module, True)


def _with_true_types(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Gives biases that passes had narrowed their own types again."""
    for node in program.graph.find_nodes(op="placeholder"):
        if _BIAS in node.meta:
            node.meta["val"] = node.meta.pop(_BIAS)
    return program


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
