"""This backend's recipes for a language model's YAML file (et_llm)."""

from __future__ import annotations

from typing import Any


def choose(settings: Any) -> tuple[str, dict[str, str]]:
    """Name of a function in mps_recipes.py, and its options; see xnnpack_llm.py.

    As upstream's `get_mps_partitioner` of 1.4.1, the last release with the backend: 16-bit floats.
    """
    for key in ("qmode", "group_size", "pt2e_quantize"):
        if getattr(settings.llm.quantization, key) is not None:
            raise settings.error(f"quantization.{key}", "nothing: MPS computes with floats")
    if settings.llm.model.enable_dynamic_shape:
        raise settings.error(
            "model.enable_dynamic_shape", "false: programs for MPS have fixed shapes"
        )
    return "fp16", {}
