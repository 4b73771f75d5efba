"""Makes Vulkan's patterns of rotary embeddings once, and for graphs that could hold one.

Replaces `get_all_fusable_subgraphs` and `replace_all_fusable_subgraphs`, and under them the
functions that make the patterns. Upstream keeps their results, but registers the functions beneath
that: three models are exported again for each graph that is partitioned and for each partition,
two thirds of the time of a small network.

Why it is equivalent: patterns are compared with a graph, never changed. Each of them concatenates,
so they match nothing in a graph without an `aten.cat`, and an empty list of patterns is the same.
"""

from __future__ import annotations

import contextlib
from typing import Any

from etlower.replacing import replaced

from etfast.graph_operators import has_any
from etfast.unit import Unit

# All patterns have it.
ROTATION = frozenset({"aten.cat.default"})


def _making_few(owner: Any, name: str) -> tuple[Any, str, Any]:
    """The replacement of a function of a graph, its last argument."""
    from executorch.backends.vulkan.patterns.rope import get_rope_graphs
    from executorch.backends.vulkan.patterns.rope_hf import get_hf_rope_graphs

    upstream = getattr(owner, name)
    makers = {"export_llama_rope": get_rope_graphs, "hf_rope": get_hf_rope_graphs}

    def call(*arguments: Any) -> Any:
        rotates = has_any(arguments[-1], ROTATION)
        chosen = (
            (owner.fusable_patterns[pattern], "get_graphs_fn", make if rotates else list)
            for pattern, make in makers.items()
        )
        with replaced(*chosen):
            return upstream(*arguments)

    return owner, name, call


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.backends.vulkan import patterns

    return replaced(
        _making_few(patterns, "get_all_fusable_subgraphs"),
        _making_few(patterns, "replace_all_fusable_subgraphs"),
    )


UNIT = Unit(
    name="vulkan_patterns",
    relies_on={
        "executorch.backends.vulkan.patterns": {
            "all_fusable_graph_patterns": "53dfdc9abff2",
            "create_replacement_for_pattern": "ef2c04c628af",
            "get_all_fusable_subgraphs": "427ed0ea1e20",
            "replace_all_fusable_subgraphs": "d989df75ddd2",
        },
        "executorch.backends.vulkan.patterns.pattern_registry": {
            "PatternEntry": "598dd1c15734",
            "create_pattern_match_from_internal_match": "54d437383021",
            "register_pattern_graph": "5b9574affcf3",
        },
        "executorch.backends.vulkan.patterns.rope": {
            "RotaryEmbeddingPattern": "c0218b11c878",
            "get_rope_graphs": "b8b04baa9092",
        },
        "executorch.backends.vulkan.patterns.rope_hf": {
            "HfRotaryEmbeddingPattern": "a68a5e03b778",
            "get_hf_rope_graphs": "8b420f48bfe8",
        },
    },
    install=_install,
    needs=("executorch.backends.vulkan.patterns",),
)
