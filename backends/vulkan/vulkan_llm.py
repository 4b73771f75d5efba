"""Which of this backend's recipes a language model's YAML file asks for (et_llm)."""

from __future__ import annotations

from typing import Any


def choose(settings: Any) -> tuple[str, dict[str, str]]:
    """Name of a function in vulkan_recipes.py, and its options; see xnnpack_llm.py."""
    asked, backend = settings.llm.quantization, settings.llm.backend.vulkan
    for key in ("qmode", "group_size"):
        if getattr(asked, key) is not None:
            raise settings.error(
                f"quantization.{key}", 'nothing; pt2e_quantize: "vulkan_8w" is Vulkan\'s'
            )
    options = {"require_dynamic_shapes": str(settings.llm.model.enable_dynamic_shape).lower()}
    if asked.pt2e_quantize is None:
        return ("fp16" if backend.force_fp16 else "fp32"), options
    if asked.pt2e_quantize.value != "vulkan_8w":
        raise settings.error("quantization.pt2e_quantize", '"vulkan_8w" for Vulkan')
    if backend.force_fp16:
        raise settings.error("backend.vulkan.force_fp16", "false beside pt2e_quantize")
    return "int8_weight_only", options
