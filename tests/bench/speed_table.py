"""The figures of the benchmark of programs' speed as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etllm.variants import SPEEDS


def speed_table(results: Mapping[str, Any]) -> str:
    """Renders the results of `//tests/bench:speed` as Markdown."""
    head = ["variant", "context", "reading, context begun", "context full"]
    head += ["writing, context begun", "context full", "memory", "file", "perplexity"]
    rows = [head, ["---"] * len(head)]
    for row in sorted(results["programs"], key=lambda row: row["context"]):
        rows.append(
            [
                f"`{row['variant']}`",
                f"{row['context']:,}",
                *(f"{row[key]:.0f}" for key in SPEEDS),
                f"{row['memory_bytes'] / 1e6:.0f} MB" if "memory_bytes" in row else "",
                f"{row['bytes'] / 1e6:.1f} MB",
                f"{row['perplexity']:.2f}" if "perplexity" in row else "",
            ]
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
