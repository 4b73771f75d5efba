"""This backend's recipes for a language model's YAML file (et_llm)."""

from __future__ import annotations

from typing import Any

# Upstream's for "4w".
_DEFAULT_GROUP = 256


def choose(settings: Any) -> tuple[str, dict[str, str]]:
    """Name of a function in portable_recipes.py, and its options; see xnnpack_llm.py."""
    asked = settings.llm.quantization
    if asked.pt2e_quantize is not None:
        raise settings.error(
            "quantization.pt2e_quantize",
            "nothing: ExecuTorch's portable kernels compute with floats",
            'Remove "portable" from backends of the target, or the key.',
        )
    if asked.qmode == "8da4w":
        raise settings.error(
            "quantization.qmode",
            '"int8" or "4w": ExecuTorch\'s portable kernels compute with floats',
            'Remove "portable" from backends of the target, or take another qmode.',
        )
    if asked.qmode == "4w":
        return "int4_weight_only", {"group_size": str(settings.group_size(_DEFAULT_GROUP, 2))}
    settings.no_group_size()
    return ("int8_weight_only" if asked.qmode else "fp32"), {}
