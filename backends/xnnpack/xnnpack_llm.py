"""Which of this backend's recipes a language model's YAML file asks for (et_llm)."""

from __future__ import annotations

from typing import Any

# XNNPACK's packed 4-bit kernels, and upstream's own default for "8da4w".
_GROUP_STEP, _DEFAULT_GROUP = 32, 128


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
    if asked.qmode and asked.pt2e_quantize:
        raise settings.error("quantization.pt2e_quantize", "nothing beside qmode", "Remove one.")
    group = asked.group_size
    if asked.qmode != "8da4w" and group is not None:
        raise settings.error("quantization.group_size", 'nothing without qmode: "8da4w"')
    if asked.pt2e_quantize:
        if asked.pt2e_quantize.value != "xnnpack_dynamic":
            raise settings.error(
                "quantization.pt2e_quantize",
                '"xnnpack_dynamic", or instead qmode: "8da4w", for XNNPACK',
            )
        return "int8_dynamic_per_channel", {}
    if asked.qmode is None:
        return "fp32", {}
    if asked.qmode != "8da4w":
        raise settings.error(
            "quantization.qmode",
            '"8da4w", or instead pt2e_quantize: "xnnpack_dynamic", for XNNPACK',
        )
    if group == 0:
        return "int8_dynamic_act_int4_weight_per_channel", {}
    group = _DEFAULT_GROUP if group is None else group
    if group < 0 or group % _GROUP_STEP:
        raise settings.error(
            "quantization.group_size",
            f"a multiple of {_GROUP_STEP}, or 0 for one scale a row: XNNPACK has no other kernels",
        )
    return "int8_dynamic_act_int4_weight", {"group_size": str(group)}
