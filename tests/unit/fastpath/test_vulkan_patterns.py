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
from etexport import lower, stages
from etexport.progress import Progress
from etfast import path, patterns, vulkan_patterns
from lowerings import digest, spec
from torch import Tensor, nn

lower.settle()

upstream = importlib.import_module("executorch.backends.vulkan.patterns")
MAKERS = [upstream.rope.get_rope_graphs, upstream.rope_hf.get_hf_rope_graphs]


class Rotating(nn.Module):
    """Both kinds of rotary embeddings, with an operator between them that Vulkan lacks."""

    def __init__(self) -> None:
        super().__init__()
        self.llama = upstream.RotaryEmbeddingPattern()
        self.hugging_face = upstream.HfRotaryEmbeddingPattern()

    def forward(self, q: Tensor, k: Tensor, half: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
        q, k = self.llama(q, k, half.cos(), half.sin())
        return self.hugging_face(torch.asinh(q), k, whole.cos(), whole.sin())


def rotating() -> ModelSpec:
    torch.manual_seed(0)
    shapes = [(1, 1, 4, 16), (1, 1, 2, 16), (1, 8), (1, 16)]
    return spec(Rotating(), *(torch.rand(*shape) for shape in shapes))


@pytest.mark.parametrize("make", MAKERS)
def test_each_pattern_has_the_operator(make: Any) -> None:
    graphs = make()
    assert graphs
    assert all(patterns.may_match(graph, vulkan_patterns.ROTATION) for graph in graphs)


def test_same_bytes() -> None:
    fast, stock = (digest(rotating(), recipes.vulkan(), path) for path in ("fast", "stock"))
    assert fast == stock


def test_a_pattern_is_found() -> None:
    """Upstream itself does not find Llama's in what its decompositions leave of it."""
    with path.chosen("fast"):
        manager = stages.run(rotating(), recipes.vulkan(), Progress(), "//t:net", etrecord=False)
    assert b"et_vk.apply_rotary_emb_hf.default" in bytes(manager.buffer)


@pytest.mark.parametrize(("net", "result"), [(rotating, True), (nets.diamond, False)])
def test_patterns_are_made_once_where_they_may_match(
    net: Any, result: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported: Counter[str] = Counter()
    for module in (upstream.rope, upstream.rope_hf):
        export = module.export

        def counted(model: Any, *arguments: Any, export: Any = export, **more: Any) -> Any:
            exported[type(model).__name__] += 1
            return export(model, *arguments, **more)

        monkeypatch.setattr(module, "export", counted)
    for make in MAKERS:
        make.cache_clear()
    digest(net(), recipes.vulkan(), "fast")
    once = {"RotaryEmbeddingPattern": 1, "HfRotaryEmbeddingPattern": 2}
    assert exported == (once if result else {})
    digest(net(), recipes.vulkan(), "stock")
    assert exported != (once if result else {})
