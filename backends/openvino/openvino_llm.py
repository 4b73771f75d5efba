"""This backend's recipes for a language model's YAML file (et_llm)."""

from __future__ import annotations

from typing import Any

_DEVICES = ("CPU", "GPU", "NPU")


def choose(settings: Any) -> tuple[str, dict[str, str]]:
    """Name of a function in openvino_recipes.py, and its options; see xnnpack_llm.py.

    As upstream's `get_ov_quantizer`: weights of 8 bits are asymmetric, those of 4 bits symmetric.
    """
    asked, backend = settings.llm.quantization, settings.llm.backend.openvino
    for key in ("qmode", "group_size"):
        if getattr(asked, key) is not None:
            raise settings.error(
                f"quantization.{key}",
                'nothing; pt2e_quantize: "openvino_4wo" or "openvino_8wo" are OpenVINO\'s',
            )
    if settings.llm.model.enable_dynamic_shape:
        raise settings.error(
            "model.enable_dynamic_shape", "false: OpenVINO's programs have fixed shapes"
        )
    if backend.device not in _DEVICES:
        raise settings.error("backend.openvino.device", " or ".join(_DEVICES))
    options = {"device": backend.device}
    group = "backend.openvino.nncf_compression_group_size"
    kind = asked.pt2e_quantize.value if asked.pt2e_quantize else ""
    if kind != "openvino_4wo" and settings.file.has(group):
        raise settings.error(group, 'nothing without pt2e_quantize: "openvino_4wo"')
    if not kind:
        return "fp32", options
    if kind == "openvino_8wo":
        return "int8_weight_only", options | {"symmetric": "false"}
    if kind != "openvino_4wo":
        raise settings.error(
            "quantization.pt2e_quantize", '"openvino_4wo" or "openvino_8wo" for OpenVINO'
        )
    if backend.nncf_compression_group_size < 1:
        raise settings.error(group, "a number from 1 on")
    return "int4_weight_only", options | {"group_size": str(backend.nncf_compression_group_size)}
