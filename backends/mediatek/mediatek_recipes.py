"""Recipes for MediaTek's NPUs (executorch/backends/mediatek); upstream has no recipes for it.

All take these options:
  platform: the chip: mt6989 (Dimensity 9300), mt6991 (9400, default) or mt6993.
  skip_ops: names of operators that the NPU doesn't get, with commas: "aten.add.Tensor".
"""

from __future__ import annotations

from dataclasses import dataclass

from etbuild import RecipeContext
from executorch.exir import EdgeCompileConfig
from executorch.exir.backend.backend_details import CompileSpec
from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe
from vendor_sdk import Sdk


@dataclass
class _Quantization(QuantizationRecipe):
    """Upstream's, for a compiler that folds the weights' quantization itself.

    Attributes:
      fold_quantize: for convert_pt2e.
    """

    fold_quantize: bool = False


def fp16(ctx: RecipeContext) -> ExportRecipe:
    """16-bit floats on the NPU; inputs and outputs keep their types."""
    return _made(ctx, "mediatek_fp16")


def int8(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights, one scale a channel, and activations; needs calibration (PT2E)."""
    return _made(ctx, "mediatek_int8", "A8W8")


def a8w4(ctx: RecipeContext) -> ExportRecipe:
    """8-bit activations and 4-bit weights, one scale a channel; needs calibration (PT2E)."""
    return _made(ctx, "mediatek_a8w4", "A8W4")


def a16w16(ctx: RecipeContext) -> ExportRecipe:
    """16-bit integers; needs calibration (PT2E)."""
    return _made(ctx, "mediatek_a16w16", "A16W16")


def a16w8(ctx: RecipeContext) -> ExportRecipe:
    """16-bit activations and 8-bit weights, one scale a channel; needs calibration (PT2E)."""
    return _made(ctx, "mediatek_a16w8", "A16W8")


def a16w4(ctx: RecipeContext) -> ExportRecipe:
    """16-bit activations and 4-bit weights, one scale a channel; needs calibration (PT2E)."""
    return _made(ctx, "mediatek_a16w4", "A16W4")


def _made(ctx: RecipeContext, name: str, precision: str = "") -> ExportRecipe:
    """A recipe; `precision`: of upstream's quantizer, empty: none."""
    platform = ctx.options.text("platform", "mt6991")
    given = ctx.options.text("skip_ops", "")
    skipped = {part.strip() for part in given.split(",") if part.strip()}
    sdk = Sdk(ctx.label, "mediatek", "MediaTek's NeuroPilot Express SDK")
    sdk.need_modules("mtk_converter", "mtk_neuron")
    upstream = sdk.imported("executorch.backends.mediatek")
    quantization = None
    if precision:
        quantizer = upstream.NeuropilotQuantizer()
        quantizer.setup_precision(upstream.Precision[precision])
        quantization = _Quantization(quantizers=[quantizer])
    specs = [CompileSpec("platform-config", platform.encode())]
    return ExportRecipe(
        name=name,
        quantization_recipe=quantization,
        lowering_recipe=LoweringRecipe(
            partitioners=[upstream.NeuropilotPartitioner(specs, op_types_to_skip=skipped)],
            edge_compile_config=EdgeCompileConfig(_check_ir_validity=False),
        ),
    )
