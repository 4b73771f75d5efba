"""Estimates that a backend's compiler makes of its payloads: builders keep them, reports show them.

A compiler says what it expects of a payload while it makes it, long before anyone asks. So whoever
calls it hands the figures over by the payload's bytes, and the lowering finds them by those.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

# Of this process, which serves one request: sha256 of a payload to its figures.
_known: dict[str, dict[str, float | str]] = {}


def keep_estimate(payload: bytes, figures: Mapping[str, float | str]) -> None:
    """Keeps what a compiler estimates of a payload, for the program's report.

    Args:
      payload: what the backend returns as `processed_bytes`.
      figures: the same for the same payload. Names end in their unit. `cycles`, `seconds` and
        `macs` are of one run, `read_write_bytes` of a memory, too; `<memory>_bytes` is what the
        payload occupies of it. `et_size_test` limits `cycles` and `sram_bytes`. Texts say what it
        was compiled for.
    """
    _known[_digest(payload)] = dict(figures)


def estimate_of(payload: bytes) -> dict[str, float | str]:
    """Returns the figures of a payload; empty: its compiler gave none."""
    return dict(_known.get(_digest(payload), {})) if _known else {}


def _digest(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
