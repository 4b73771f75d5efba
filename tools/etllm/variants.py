"""The variant of attention that a program has, and what the benchmark says of the others.

`measured.json` is a copy of the benchmark's figures (`tests/bench/results/speed.json`), which
`bazel run //docs:update` writes. A test fails where the copy is another one, and where upstream's
program is faster than the variant that is chosen here, by all columns of a context.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

# Calls read the part of the KV cache that has tokens, or all of it, which the benchmark lacks.
PREFIX, WHOLE = "plain", "whole_cache"
# Rows of programs by other means, which a YAML file or another exporter gives.
_OTHERS = ("embedding_4", "export_llm")
# Backends whose programs read prefixes: sizes may follow from values.
_TAKE_PREFIXES = {"portable", "xnnpack"}
_MEANINGS = {
    PREFIX: "a call reads the part of the KV cache that has tokens",
    WHOLE: "a call reads the whole KV cache",
    "embedding_4": "the same with embedding_quantize: 4,32",
    "export_llm": "upstream's export_llm with use_sdpa_with_kv_cache",
}
# Of a row: reading and writing while the context is nearly empty, and at its end.
SPEEDS = ("read", "read_full", "write", "write_full")


def measured() -> Mapping[str, Any]:
    """The benchmark's figures: `machine`, and the `programs` of ExecuTorch."""
    path = Path(__file__).with_name("measured.json")
    return json.loads(path.read_text(encoding="utf-8"))


def copied(results: Mapping[str, Any]) -> str:
    """The text of `measured.json`.

    Args:
      results: of the benchmark.
    """
    rows = [
        {key: row[key] for key in ("variant", "context", *SPEEDS, "memory_bytes")}
        for row in results["programs"]
        if row["variant"] in _MEANINGS
    ]
    return json.dumps({"machine": results["machine"], "programs": rows}, indent=1) + "\n"


def chosen(backends: Iterable[str]) -> str:
    """The variant of a target's programs: prefixes are faster, whatever the context is.

    Args:
      backends: those whose recipes the YAML file chooses; none: the target has recipes of its own.
    """
    named = set(backends)
    return PREFIX if named and named <= _TAKE_PREFIXES else WHOLE


def note(variant: str, backends: Iterable[str], context: int) -> str:
    """A sentence for the report: the variant, why it was chosen, and what the others give.

    Args:
      variant: from `chosen`.
      backends: as there.
      context: tokens that the KV cache holds.
    """
    figures = measured()
    contexts = sorted({row["context"] for row in figures["programs"]})
    nearest = min(contexts, key=lambda each: (max(each, context) / min(each, context), each))
    rows = {row["variant"]: row for row in figures["programs"] if row["context"] == nearest}
    fixed = sorted(set(backends) - _TAKE_PREFIXES)
    why = ""
    if variant == WHOLE:
        why = f", as programs for {', '.join(fixed)} have fixed sizes" if fixed else ""
        why = why or ", as recipes of the target's own may fix sizes"
    machine = figures["machine"]
    listed = "; ".join(
        _described(name, rows[name]) for name in (PREFIX, WHOLE, *_OTHERS) if name in rows
    )
    return (
        f'Attention: variant "{variant}": {_MEANINGS[variant]}{why}. Measured with SmolLM2-135M in '
        f"8da4w at a context of {nearest:,} (this program: {context:,}) on {machine['cores']} "
        f"cores, {machine['date']}, in tokens per second, at the beginning and at the end of the "
        f"context: {listed}."
    )


def _described(name: str, row: Mapping[str, Any]) -> str:
    read, read_full, write, write_full = (f"{row[key]:,.0f}" for key in SPEEDS)
    return (
        f'"{name}" ({_MEANINGS[name]}) reads {read} and {read_full}, writes {write} and '
        f"{write_full}, and takes {row['memory_bytes'] / 1e6:,.0f} MB"
    )
