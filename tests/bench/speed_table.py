"""The figures of the benchmark of programs' speed as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def speed_table(results: Mapping[str, Any]) -> str:
    """Renders the results of `//tests/bench:speed` as Markdown."""
    head = ["variant", "context", "reading", "writing, context begun", "writing, context full"]
    head += ["memory", "program", "perplexity"]
    rows = [head, ["---"] * len(head)]
    for row in results["programs"]:
        rows.append(
            [
                f"`{row['variant']}`",
                f"{row['context']:,}",
                f"{row['prompt_tokens_per_second']:.0f} tokens/s",
                f"{row['tokens_per_second_after_prompt']:.0f} tokens/s",
                f"{row['tokens_per_second']:.0f} tokens/s",
                f"{row['memory_bytes'] / 1e6:.0f} MB",
                f"{row['bytes'] / 1e6:.1f} MB",
                f"{row['perplexity']:.2f}",
            ]
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
