"""Vulkan's patterns are made once, for graphs that could hold one, and are found there."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

import nets
import pytest
import recipes
import torch
from etbuild import ModelSpec
from etfast import graph_operators, path, vulkan_patterns
from etlower import lower, stages
from etlower.progress import Progress
from lowerings import spec

lower.make_deterministic()

upstream = importlib.import_module("executorch.backends.vulkan.patterns")
MAKERS = [upstream.rope.get_rope_graphs, upstream.rope_hf.get_hf_rope_graphs]


def rotating() -> ModelSpec:
    """Rotary embeddings as Hugging Face has them; upstream finds no others."""
    shapes = [(1, 1, 4, 16), (1, 1, 2, 16), (1, 16), (1, 16)]
    return spec(upstream.HfRotaryEmbeddingPattern(), *(torch.rand(*shape) for shape in shapes))


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often the model of each pattern was exported."""
    counts: Counter[str] = Counter()
    for module in (upstream.rope, upstream.rope_hf):
        export = module.export

        def counted(model: Any, *arguments: Any, export: Any = export, **more: Any) -> Any:
            counts[type(model).__name__] += 1
            return export(model, *arguments, **more)

        monkeypatch.setattr(module, "export", counted)
    for make in MAKERS:
        make.cache_clear()
    return counts


def program(net: ModelSpec, lowering: str) -> bytes:
    torch.manual_seed(0)
    with path.chosen(lowering) as used:
        manager = stages.run(net, recipes.vulkan(), Progress(), "//t:net", etrecord=False)
    assert ("vulkan_patterns" in used.active) == (lowering == "fast")
    return bytes(manager.buffer)


@pytest.mark.parametrize("make", MAKERS)
def test_each_pattern_has_the_operator(make: Any) -> None:
    graphs = make()
    assert graphs
    assert all(graph_operators.has_any(graph, vulkan_patterns.ROTATION) for graph in graphs)


@pytest.mark.release
def test_they_are_made_once_and_found(exported: Counter[str]) -> None:
    """Upstream makes them for the partitioner, and for the partition again."""
    once = {"RotaryEmbeddingPattern": 1, "HfRotaryEmbeddingPattern": 2}
    fast = program(rotating(), "fast")
    assert exported == once
    assert b"et_vk.apply_rotary_emb_hf.default" in fast
    exported.clear()
    assert program(rotating(), "stock") == fast
    assert exported == {name: 2 * count for name, count in once.items()}


def test_they_are_not_made_for_others(exported: Counter[str]) -> None:
    program(nets.diamond(), "fast")
    assert not exported
