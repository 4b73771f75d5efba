"""The figures of et_llm's layers and of transformers' as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from etllm.variants import SPEEDS

OWN, TRANSFORMERS = "own", "transformers"
# Keys of which less is better.
COSTS = ("bytes", "lowering_cpu_seconds")


def pairs(figures: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Rows of the same model and context: et_llm's layers, and those of transformers."""
    rows = {(row["model"], row["context"], row["by"]): row for row in figures["programs"]}
    for model, context, by in rows:
        if by == OWN and (model, context, TRANSFORMERS) in rows:
            yield rows[model, context, OWN], rows[model, context, TRANSFORMERS]


def table(figures: Mapping[str, Any]) -> str:
    """Renders the results of `//tests/bench:own_layers` as Markdown, both in each cell."""
    head = ["shape", "context", "reading, context begun", "context full"]
    head += ["writing, context begun", "context full", "file, MB", "lowering, CPU seconds"]
    rows = [head, ["---"] * len(head)]
    scales = dict.fromkeys(SPEEDS, 1.0) | {"bytes": 1e-6, "lowering_cpu_seconds": 1.0}
    for own, theirs in pairs(figures):
        cells = [
            f"{_short(own[key] * scale)} / {_short(theirs[key] * scale)}" if key in own else ""
            for key, scale in scales.items()
        ]
        rows.append([own["model"], f"{own['context']:,}", *cells])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"
