"""Keeps a worker from starting more lowerings at once than memory allows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

# What torch and executorch take in a child, and how often a lowering holds its weights:
# measured on fp32 and 4-bit programs of 1 MB to 500 MB.
BASE_BYTES = 700 << 20
COPIES = 5


class Admission:
    """Estimates the memory of requests and says whether one more fits.

    Args:
      total: bytes that all requests together may take; 0: 80 % of what the machine has free now.
    """

    def __init__(self, total: int = 0) -> None:
        self._total = total or int(0.8 * _available())

    def need(self, request: dict[str, Any]) -> int:
        """Bytes that a request will probably take: from the size of its model's files."""
        folder = request.get("sandboxDir") or "."
        inputs = [i.get("path", "") for i in request.get("inputs", [])]
        files = (Path(folder) / path for path in inputs if path.endswith(_WEIGHTS))
        return BASE_BYTES + COPIES * sum(_size(file) for file in files)

    def fits(self, promised: int, more: int) -> bool:
        """Tells whether a request of `more` bytes may start beside others of `promised` bytes."""
        return promised + more <= self._total


_WEIGHTS = (
    ".gguf",
    ".jit",
    ".safetensors",
    ".pt",
    ".pth",
    ".pt2",
    ".bin",
    ".ckpt",
    ".npz",
    ".npy",
    ".onnx",
)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _available() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
