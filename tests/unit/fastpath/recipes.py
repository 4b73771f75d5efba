"""The recipes that nets are lowered with: functions that make an ExportRecipe anew."""

from __future__ import annotations

from collections.abc import Callable

import xnnpack_recipes
from etbuild import Options, RecipeContext
from executorch.export import ExportRecipe, QuantizationRecipe
from executorch.export.recipe import LoweringRecipe


def xnnpack(name: str) -> ExportRecipe:
    """One of //backends/xnnpack."""
    label = f"//backends/xnnpack:{name}"
    return getattr(xnnpack_recipes, name)(RecipeContext(Options({}, label), label))


def hqq() -> ExportRecipe:
    """Four bits with the scales that language models take by default."""
    recipe = xnnpack("int8_dynamic_act_int4_weight")
    for config in recipe.quantization_recipe.ao_quantization_configs:
        config.ao_base_config.intx_choose_qparams_algorithm = "hqq_scale_only"
    return recipe


def portable() -> ExportRecipe:
    """Nothing is delegated."""
    return ExportRecipe(name="portable")


def vulkan() -> ExportRecipe:
    """torch's own partitioner, and a backend that changes graphs itself."""
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

    return ExportRecipe(name="vulkan", lowering_recipe=LoweringRecipe([VulkanPartitioner()]))


def both() -> ExportRecipe:
    """Two backends, the second of which takes what the first left."""
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    partitioners = [XnnpackPartitioner(), VulkanPartitioner()]
    return ExportRecipe(name="both", lowering_recipe=LoweringRecipe(partitioners))


def coreml() -> ExportRecipe:
    """Core ML's quantizer, for graphs that are not lowered."""
    from coremltools.optimize.torch import quantization
    from executorch.backends.apple.coreml.quantizer import CoreMLQuantizer

    settings = quantization.ModuleLinearQuantizerConfig(quantization_scheme="symmetric")
    config = quantization.LinearQuantizerConfig(global_config=settings)
    quantizers = [CoreMLQuantizer(config)]
    return ExportRecipe(name="coreml", quantization_recipe=QuantizationRecipe(quantizers))


def _xnnpack(name: str) -> Callable[[], ExportRecipe]:
    return lambda: xnnpack(name)


ALL: dict[str, Callable[[], ExportRecipe]] = {
    "portable": portable,
    "vulkan": vulkan,
    "both": both,
    "hqq": hqq,
    "fp32": _xnnpack("fp32"),
    "int4": _xnnpack("int8_dynamic_act_int4_weight"),
    "dynamic": _xnnpack("int8_dynamic_per_channel"),
    "static": _xnnpack("int8_static_per_tensor"),
}
