"""This backend's recipes for a language model's YAML file (et_llm)."""

from __future__ import annotations

from typing import Any

_KINDS = {None: "fp16", "qnn_8a8w": "int8", "qnn_16a4w": "a16w4"}


def qnn(settings: Any) -> tuple[str, dict[str, str]]:
    """Name of a function in qualcomm_recipes.py, and its options; see xnnpack_llm.py."""
    asked = settings.llm.quantization
    for key in ("qmode", "group_size"):
        if getattr(asked, key) is not None:
            raise settings.error(f"quantization.{key}", "nothing; pt2e_quantize is for QNN")
    if settings.llm.model.enable_dynamic_shape:
        raise settings.error(
            "model.enable_dynamic_shape", "false: programs for QNN have fixed shapes"
        )
    kind = asked.pt2e_quantize.value if asked.pt2e_quantize else None
    if kind not in _KINDS:
        raise settings.error(
            "quantization.pt2e_quantize", '"qnn_8a8w" or "qnn_16a4w", or nothing for 16-bit floats'
        )
    # As upstream's export_llm: the KV cache stays with ExecuTorch.
    options = {"skip_mutable_buffer": "true", "soc_model": settings.llm.backend.qnn.soc_model}
    return _KINDS[kind], options
