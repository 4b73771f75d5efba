"""This backend's recipes for a language model's YAML file (et_llm)."""

from __future__ import annotations

from typing import Any

# qmode to the recipe and upstream's own number of columns that share a scale.
_IN_GROUPS = {"4w": ("int4_weight_only", 256), "8da4w": ("int8_dynamic_act_int4_weight", 128)}
_GROUP_STEP = 8


def choose(settings: Any) -> tuple[str, dict[str, str]]:
    """Name of a function in vulkan_recipes.py, and its options; see xnnpack_llm.py."""
    asked, backend = settings.llm.quantization, settings.llm.backend.vulkan
    options = {"require_dynamic_shapes": str(settings.llm.model.enable_dynamic_shape).lower()}
    if asked.qmode is not None or asked.pt2e_quantize is not None:
        if backend.force_fp16:
            raise settings.error("backend.vulkan.force_fp16", "false beside quantization")
    elif backend.force_fp16:
        settings.no_group_size()
        return "fp16", options
    if asked.pt2e_quantize is not None and asked.pt2e_quantize.value != "vulkan_8w":
        raise settings.error("quantization.pt2e_quantize", '"vulkan_8w" for Vulkan')
    if asked.qmode in _IN_GROUPS:
        name, default = _IN_GROUPS[asked.qmode]
        return name, options | {"group_size": str(settings.group_size(default, _GROUP_STEP))}
    settings.no_group_size()
    if asked.qmode is not None:
        raise settings.error(
            "quantization.qmode", '"4w" or "8da4w"; pt2e_quantize: "vulkan_8w" has 8 bits'
        )
    return ("int8_weight_only" if asked.pt2e_quantize else "fp32"), options
