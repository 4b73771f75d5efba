"""Which of this backend's recipes a language model's YAML file asks for (et_llm)."""

from __future__ import annotations

from typing import Any


def choose(settings: Any) -> tuple[str, dict[str, str]]:
    """Name of a function in portable_recipes.py, and its options; see xnnpack_llm.py."""
    for key in ("qmode", "pt2e_quantize", "group_size"):
        if getattr(settings.llm.quantization, key) is not None:
            raise settings.error(
                f"quantization.{key}",
                "nothing: ExecuTorch's portable kernels compute in 32 bits",
                'Remove "portable" from backends of the target, or the key.',
            )
    return "fp32", {}
