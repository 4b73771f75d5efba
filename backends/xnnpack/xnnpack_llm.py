"""This backend's recipes for a language model's YAML file (et_llm)."""

from __future__ import annotations

from typing import Any

# XNNPACK's packed 4-bit kernels, and upstream's own defaults for "8da4w" and "4w".
_GROUP_STEP, _DEFAULT_GROUP, _DEFAULT_GROUP_4W = 32, 128, 256


def choose(settings: Any) -> tuple[str, dict[str, str]]:
    """The recipe and its options.

    Args:
      settings: `etllm.settings.Settings` of the file.

    Returns:
      Name of a function in xnnpack_recipes.py, and its options.

    Raises:
      BuildError: the file asks for what no recipe does; with its line.
    """
    asked = settings.llm.quantization
    extended = "backend.xnnpack.extended_ops"
    if settings.file.has(extended) and not settings.value(extended):
        raise settings.error(
            extended,
            "true, or no such key: XNNPACK's recipes delegate all that it takes",
            "Remove the key.",
        )
    if asked.pt2e_quantize and asked.pt2e_quantize.value != "xnnpack_dynamic":
        raise settings.error(
            "quantization.pt2e_quantize",
            '"xnnpack_dynamic", or instead a qmode, for XNNPACK',
        )
    name, options = _recipe(settings)
    key = "backend.xnnpack.enable_bf16"
    if settings.value(key):
        return name, options | {"enable_bf16": "true"}
    if settings.llm.model.dtype_override.value == "bf16" and name.startswith("int8_dynamic"):
        raise settings.error(key, "true: only XNNPACK has kernels for this quantization")
    return name, options


def _recipe(settings: Any) -> tuple[str, dict[str, str]]:
    asked = settings.llm.quantization
    if asked.qmode in (None, "int8"):
        settings.no_group_size()
        if asked.pt2e_quantize:
            return "int8_dynamic_per_channel", {}
        return ("int8_weight_only" if asked.qmode else "fp32"), {}
    if asked.qmode == "4w":
        return "int4_weight_only", {"group_size": str(settings.group_size(_DEFAULT_GROUP_4W, 2))}
    group = settings.group_size(_DEFAULT_GROUP, _GROUP_STEP, rows=True)
    if group == 0:
        return "int8_dynamic_act_int4_weight_per_channel", {}
    return "int8_dynamic_act_int4_weight", {"group_size": str(group)}
