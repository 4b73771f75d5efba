"""Recipes for Samsung's NPUs (executorch/backends/samsung); upstream has no recipes for it.

All take the option `chipset`: E9955 (Exynos 2500, default) or E9965 (Exynos 2600).

Upstream's Python calls the SDK through a module that only a build of ExecuTorch's sources with the
SDK makes, and that its wheels lack: backends/samsung/python/PyEnnWrapperAdaptor.*.so. These recipes
look for it in the folder executorch/backends/samsung/python of the SDK's folder.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch
from etbuild import BuildError, RecipeContext
from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe
from vendor_sdk import Sdk

_BACKENDS = "executorch/backends"
_ADAPTOR = f"{_BACKENDS}/samsung/python"


@dataclass
class _Quantization(QuantizationRecipe):
    """Upstream's, for a compiler that folds the weights' quantization itself.

    Attributes:
      fold_quantize: for convert_pt2e.
    """

    fold_quantize: bool = False


def fp16(ctx: RecipeContext) -> ExportRecipe:
    """16-bit floats on the NPU; inputs and outputs keep their types."""
    return _made(ctx, "samsung_fp16")


def int8(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights and activations; needs calibration (PT2E).

    Options:
      per_channel: whether each channel of weights has a scale of its own; default true.
    """
    per_channel = ctx.options.boolean("per_channel", default=True)
    return _made(ctx, "samsung_int8", per_channel=per_channel)


def quantization(per_channel: bool) -> QuantizationRecipe:
    """8-bit weights and activations by upstream's quantizer.

    Args:
      per_channel: whether each channel of weights has a scale of its own.
    """
    from executorch.backends.samsung.quantizer import EnnQuantizer, Precision
    from executorch.backends.transforms.decompose_sdpa import DecomposeScaledDotProductAttention

    def decomposed(captured: torch.fx.GraphModule) -> torch.fx.GraphModule:
        return DecomposeScaledDotProductAttention()(captured).graph_module

    quantizer = EnnQuantizer()
    quantizer.setup_quant_params(Precision.A8W8, per_channel)
    return _Quantization(quantizers=[quantizer], pre_prepare_passes=[decomposed])


def _made(ctx: RecipeContext, name: str, per_channel: bool | None = None) -> ExportRecipe:
    """A recipe; `per_channel`: None: no quantization."""
    chipset = ctx.options.text("chipset", "E9955")
    sdk = Sdk(ctx.label, "samsung", "Samsung's Exynos AI LiteCore SDK")
    _find_adaptor(sdk)
    partitioner = sdk.imported("executorch.backends.samsung.partition.enn_partitioner")
    specs = sdk.imported("executorch.backends.samsung.serialization.compile_options")
    utils = sdk.imported("executorch.backends.samsung.utils.export_utils")
    spec = specs.gen_samsung_backend_compile_spec(chipset)
    return ExportRecipe(
        name=name,
        quantization_recipe=None if per_channel is None else quantization(per_channel),
        lowering_recipe=LoweringRecipe(
            partitioners=[partitioner.EnnPartitioner([spec])],
            edge_compile_config=utils.get_edge_compile_config(),
        ),
    )


def _find_adaptor(sdk: Sdk) -> None:
    """Lets Python find upstream's module in the SDK's folder, behind the exporter's own."""
    import executorch.backends as backends

    if not list((sdk.folder() / _ADAPTOR).glob("PyEnnWrapperAdaptor*.so")):
        raise BuildError(
            f"{sdk.label}: {_ADAPTOR}/PyEnnWrapperAdaptor.*.so is missing from the folder of "
            f"{sdk.title}; ExecuTorch's wheels lack it.",
            "Build ExecuTorch's sources of the exporter's version with the SDK "
            "(backends/samsung/build.sh --build x86_64) for CPython 3.11, and copy it there.",
        )
    place: Any = str(sdk.folder() / _BACKENDS)
    if place not in backends.__path__:
        backends.__path__.append(place)
    # A package that is in memory keeps its folders.
    for name in [name for name in sys.modules if name.startswith("executorch.backends.samsung")]:
        del sys.modules[name]
