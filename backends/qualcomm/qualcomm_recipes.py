"""Recipes for Qualcomm's NPUs through QNN's HTP backend (executorch/backends/qualcomm).

All take these options:
  soc_model: the chip, as SM8650 (default), Snapdragon 8 Gen 3; see BUILD.bazel for others.
  skip_ops: names of operators that QNN doesn't get, with commas: "aten.add.Tensor".
  skip_mutable_buffer: whether state, such as a KV cache, stays with ExecuTorch; default false.

Upstream has a recipe for fp16 only; the others put its quantizer before the same lowering.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from etbuild import BuildError, RecipeContext
from executorch.export import ExportRecipe, QuantizationRecipe
from vendor_sdk import Sdk

_LIBRARIES = "lib/x86_64-linux-clang"


def fp16(ctx: RecipeContext) -> ExportRecipe:
    """16-bit floats; inputs and outputs keep their types. Chips from Snapdragon 8 Gen 1 on."""
    settings = _settings(ctx)
    return _provider(ctx).create_recipe(_recipe_type(), **settings)


def int8(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights, one scale a channel, and activations; needs calibration (PT2E)."""
    return _quantized(ctx, "qnn_int8", "use_8a8w")


def a16w8(ctx: RecipeContext) -> ExportRecipe:
    """16-bit activations and 8-bit weights, one scale a channel; needs calibration (PT2E)."""
    return _quantized(ctx, "qnn_a16w8", "use_16a8w")


def a16w4(ctx: RecipeContext) -> ExportRecipe:
    """16-bit activations and 4-bit weights, one scale a channel; needs calibration (PT2E)."""
    return _quantized(ctx, "qnn_a16w4", "use_16a4w")


def _settings(ctx: RecipeContext) -> dict[str, Any]:
    """The options, as upstream's provider takes them."""
    options = ctx.options
    skipped = {name.strip() for name in options.text("skip_ops", "").split(",") if name.strip()}
    return {
        "skip_mutable_buffer": options.boolean("skip_mutable_buffer", default=False),
        "skip_node_op_set": skipped or None,
        "soc_model": options.text("soc_model", "SM8650"),
    }


def _provider(ctx: RecipeContext) -> Any:
    """Upstream's provider, ready to lower with the SDK."""
    sdk = Sdk(ctx.label, "qualcomm", "Qualcomm's AI Engine Direct SDK (QNN)")
    # Upstream would download an SDK where this isn't set.
    os.environ["QNN_SDK_ROOT"] = str(sdk.folder())
    # It also opens libraries by their bare names, which the loader knows once they are loaded.
    sdk.preload(f"{_LIBRARIES}/libQnnHtp.so")
    sdk.preload(f"{_LIBRARIES}/libQnnSystem.so")
    return sdk.imported("executorch.backends.qualcomm.recipes").QNNRecipeProvider()


def _recipe_type() -> Any:
    from executorch.backends.qualcomm.recipes import QNNRecipeType

    return QNNRecipeType.FP16


def _quantized(ctx: RecipeContext, name: str, precision: str) -> ExportRecipe:
    """A recipe; `precision`: a QuantDtype of upstream's quantizer."""
    settings = _settings(ctx)
    provider = _provider(ctx)
    recipe = provider.create_recipe(_recipe_type(), **settings)
    chip = _chip(ctx, settings["soc_model"])
    lowered = {**settings, "soc_model": chip}
    recipe.name = name
    recipe.lowering_recipe = provider._get_qnn_lowering_recipe(use_fp16=False, **lowered)
    recipe.quantization_recipe = QuantizationRecipe(quantizers=[quantizer(chip, precision)])
    return recipe


def _chip(ctx: RecipeContext, soc_model: str) -> Any:
    from executorch.backends.qualcomm.utils.utils import get_soc_to_chipset_map

    chips = get_soc_to_chipset_map()
    if soc_model not in chips:
        raise BuildError(
            f'{ctx.label}: soc_model: got "{soc_model}", expected a chip that the exporter\'s '
            f"ExecuTorch has: {', '.join(sorted(chips))}."
        )
    return chips[soc_model]


def quantizer(chip: Any, precision: str) -> Any:
    """Upstream's quantizer.

    Args:
      chip: a QcomChipset.
      precision: name of a QuantDtype.
    """
    from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype

    # Upstream switches it off on some vendors' CPUs only, and calibration would differ.
    torch.backends.mkldnn.set_flags(False)
    made = QnnQuantizer(soc_model=chip)
    made.set_default_quant_config(
        QuantDtype[precision], is_conv_per_channel=True, is_linear_per_channel=True
    )
    return made
