"""Arm's recipes for a language model's YAML file (et_llm): a function a section."""

from __future__ import annotations

import re
from typing import Any

_QUANTIZE = "quantization.pt2e_quantize"
# Profiles of TOSA: with whole numbers, which upstream's defaults name, and with floats.
_INT, _FP = "TOSA-1.0+INT", "TOSA-1.0+FP"


def tosa(settings: Any) -> tuple[str, dict[str, str]]:
    """Name of a function in arm_recipes.py, and its options; see xnnpack_llm.py."""
    return _by_profile(settings, "tosa", "backend.tosa.version")


def vgf(settings: Any) -> tuple[str, dict[str, str]]:
    """As `tosa`."""
    return _by_profile(settings, "vgf", "backend.vgf.compile_spec")


def ethosu(settings: Any) -> tuple[str, dict[str, str]]:
    """As `tosa`."""
    backend = settings.llm.backend.ethosu
    _check(settings, "Ethos-U")
    if _kind(settings) != "ethosu_8a8w":
        raise settings.error(_QUANTIZE, '"ethosu_8a8w": Ethos-U computes with whole numbers')
    match = re.fullmatch(r"ethos-(u55|u65|u85)-([1-9][0-9]*)", backend.target)
    if match is None:
        raise settings.error(
            "backend.ethosu.target", '"ethos-", u55, u65 or u85, and the MACs: "ethos-u85-256"'
        )
    options = {"macs": match[2], "quantize_scope": _scope(settings)}
    for name in ("memory_mode", "system_config"):
        if getattr(backend, name) != "default":
            options[name] = getattr(backend, name)
    if backend.extra_flags:
        options["extra_flags"] = " ".join(backend.extra_flags)
    return f"ethos_{match[1]}_int8", options


def _by_profile(settings: Any, section: str, key: str) -> tuple[str, dict[str, str]]:
    _check(settings, section.upper())
    kind, profile = _kind(settings), settings.value(key)
    if kind not in (None, f"{section}_8a8w"):
        raise settings.error(_QUANTIZE, f'"{section}_8a8w", or nothing for floats')
    expected = _INT if kind else _FP
    if profile != expected:
        which = f"with {_QUANTIZE}" if kind else f'without pt2e_quantize: "{section}_8a8w"'
        raise settings.error(key, f'"{expected}" {which}')
    if kind is None:
        return f"{section}_fp", {}
    return f"{section}_int8", {"quantize_scope": _scope(settings)}


def _check(settings: Any, name: str) -> None:
    """Fails for what none of Arm's recipes does."""
    asked = settings.llm.quantization
    for key in ("qmode", "group_size"):
        if getattr(asked, key) is not None:
            raise settings.error(f"quantization.{key}", f"nothing; pt2e_quantize is for {name}")
    if settings.llm.model.enable_dynamic_shape:
        raise settings.error(
            "model.enable_dynamic_shape", f"false: programs for {name} have fixed shapes"
        )


def _kind(settings: Any) -> str | None:
    kind = settings.llm.quantization.pt2e_quantize
    return kind.value if kind else None


def _scope(settings: Any) -> str:
    """As upstream: the section of VGF has a key of its own, which the general one overrides."""
    scope = settings.llm.quantization.quantize_scope.value
    vgf = settings.llm.backend.vgf
    scope = vgf.quantize_scope.value if scope == "full" and vgf.enabled else scope
    if scope == "full":
        raise settings.error(
            "quantization.quantize_scope",
            '"linear": Arm\'s partitioner (ExecuTorch 1.5.1) fails on a decoder that is quantized '
            "whole",
        )
    return scope
