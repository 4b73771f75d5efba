"""Which of this backend's recipes a language model's YAML file asks for (et_llm)."""

from __future__ import annotations

from typing import Any

_WEIGHTS_4 = {
    "b4w": ("int4_weight_only_per_group", {"group_size": "32"}),
    "c4w": ("int4_weight_only_per_channel", {}),
}
# The first iOS whose Core ML has 4-bit weights.
_IOS_4 = 18


def choose(settings: Any) -> tuple[str, dict[str, str]]:
    """Name of a function in coreml_recipes.py, and its options; see xnnpack_llm.py."""
    asked, backend = settings.llm.quantization, settings.llm.backend.coreml
    for key in ("qmode", "group_size", "pt2e_quantize"):
        if getattr(asked, key) is not None:
            raise settings.error(
                f"quantization.{key}", "nothing; backend.coreml.quantize is Core ML's"
            )
    options = {
        "compute_unit": backend.compute_units.value.upper(),
        "minimum_deployment_target": f"iOS{backend.ios}",
    }
    if backend.quantize is None:
        return "fp16", options
    if backend.ios < _IOS_4:
        raise settings.error(
            "backend.coreml.ios", f"{_IOS_4}: earlier ones have no weights of 4 bits"
        )
    name, own = _WEIGHTS_4[backend.quantize.value]
    return name, options | own
