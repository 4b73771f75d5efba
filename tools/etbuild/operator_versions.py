"""Versions of ExecuTorch in which backends got operators, by upstream's sources."""

from __future__ import annotations

# The oldest runtime that Vulkan's programs are for, and the newest that packages for Android have.
OLDEST = "1.3.1"

# Operators of Vulkan's payloads that OLDEST lacks: the first version that has them.
VULKAN = {
    "aten.bitwise_or.Tensor": "1.4.0",
    "aten.eq.Scalar": "1.4.0",
    "aten.ge.Scalar": "1.5.0",
    "aten.grid_sampler_2d.default": "1.4.0",
    "aten.gt.Scalar": "1.5.0",
    "aten.le.Scalar": "1.5.0",
    "aten.log10.default": "1.5.0",
    "aten.logical_or.default": "1.4.0",
    "aten.lt.Scalar": "1.5.0",
    "aten.ne.Scalar": "1.5.0",
    "aten.unfold_copy.default": "1.5.0",
    "et_vk.rms_norm.default": "1.5.1",
}


def is_older(version: str, than: str) -> bool:
    """Compares two versions, such as "1.3.1" and "1.4.0"."""
    return numbers(version) < numbers(than)


def numbers(version: str) -> list[int]:
    """A version, for comparison."""
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]
