"""This backend's recipes for a language model's YAML file (et_llm)."""

from __future__ import annotations

from typing import Any

_KINDS = {"4w": "int4_weight_only", "int8": "int8_weight_only"}
# Columns that share a scale in MLX's kernels.
_GROUPS = (32, 64, 128)


def choose(settings: Any) -> tuple[str, dict[str, str]]:
    """Name of a function in mlx_recipes.py, and its options; see xnnpack_llm.py."""
    asked = settings.llm.quantization
    if asked.pt2e_quantize is not None:
        raise settings.error("quantization.pt2e_quantize", "nothing; qmode is for MLX")
    if asked.qmode is None:
        settings.no_group_size()
        return "fp32", {}
    if asked.qmode not in _KINDS:
        raise settings.error("quantization.qmode", '"4w" or "int8" for MLX')
    if asked.group_size not in _GROUPS:
        raise settings.error(
            "quantization.group_size", f"one of {', '.join(map(str, _GROUPS))} for MLX"
        )
    return _KINDS[asked.qmode], {"group_size": str(asked.group_size)}
