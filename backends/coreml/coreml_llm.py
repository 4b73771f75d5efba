"""This backend's recipes for a language model's YAML file (et_llm)."""

from __future__ import annotations

from typing import Any

_WEIGHTS_4 = {
    "b4w": ("int4_weight_only_per_group", {"group_size": "32"}),
    "c4w": ("int4_weight_only_per_channel", {}),
}
# The first iOS whose Core ML has weights of 4 and of 8 bits.
_IOS_4, _IOS_8 = 18, 16
# Upstream's own number of columns that share a scale with "4w".
_DEFAULT_GROUP = 256


def choose(settings: Any) -> tuple[str, dict[str, str]]:
    """Name of a function in coreml_recipes.py, and its options; see xnnpack_llm.py."""
    asked, backend = settings.llm.quantization, settings.llm.backend.coreml
    options = {
        "compute_unit": backend.compute_units.value.upper(),
        "minimum_deployment_target": f"iOS{backend.ios}",
    }
    if asked.pt2e_quantize is not None:
        raise settings.error(
            "quantization.pt2e_quantize", "nothing; backend.coreml.quantize and qmode are Core ML's"
        )
    if backend.quantize is not None and asked.qmode is not None:
        raise settings.error("quantization.qmode", "nothing beside backend.coreml.quantize")
    if asked.qmode not in (None, "4w", "int8"):
        raise settings.error("quantization.qmode", '"4w" or "int8" for Core ML')
    if asked.qmode != "4w":
        settings.no_group_size()
    if asked.qmode == "int8":
        _check_ios(settings, _IOS_8, "8")
        return "int8_weight_only_per_channel", options
    if backend.quantize is None and asked.qmode is None:
        return "fp16", options
    _check_ios(settings, _IOS_4, "4")
    if asked.qmode:
        group = str(settings.group_size(_DEFAULT_GROUP, 2))
        return "int4_weight_only_per_group", options | {"group_size": group}
    name, own = _WEIGHTS_4[backend.quantize.value]
    return name, options | own


def _check_ios(settings: Any, oldest: int, bits: str) -> None:
    if settings.llm.backend.coreml.ios < oldest:
        raise settings.error(
            "backend.coreml.ios", f"at least {oldest}: earlier ones have no weights of {bits} bits"
        )
