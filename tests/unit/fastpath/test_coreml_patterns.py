"""Patterns are looked for where a graph has their operators; random numbers go on alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import recipes
import torch
from etfast import coreml_patterns, graph_operators, path
from etfast.coreml_patterns import Pattern
from etlower import lower
from executorch.backends.apple.coreml.quantizer import _coreml_quantizer_utils as utils
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.nn import functional as F
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

lower.make_deterministic()
ALL = 405


def annotated(function: Callable[[Tensor], Any], lowering: str = "fast") -> GraphModule:
    """A graph with Core ML's annotations."""

    class Net(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return function(x)

    graph = torch.export.export(Net(), (torch.ones(1, 2, 5, 5),), strict=True).module()
    [quantizer] = recipes.coreml().quantization_recipe.quantizers
    with path.chosen(lowering):
        return quantizer.annotate(graph)


@pytest.fixture
def patterns(monkeypatch: pytest.MonkeyPatch) -> list[Pattern]:
    """The patterns that a graph of another operator is searched for."""
    found: list[Pattern] = []
    operators = Pattern.operators

    def seen(pattern: Pattern) -> frozenset[str]:
        found.append(pattern)
        return operators(pattern)

    monkeypatch.setattr(Pattern, "operators", seen)
    annotated(torch.sin)
    assert len(found) == ALL
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("step", [101, 1])
def test_patterns_have_their_operators(step: int, patterns: list[Pattern]) -> None:
    for pattern in patterns[::step]:
        graph = utils._get_aten_graph_module_for_pattern(pattern.module, pattern.inputs)
        assert graph_operators.has_all(graph, Pattern.operators(pattern))


def test_random_numbers_go_on_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exporting a pattern draws none."""
    made = []
    graph = GraphModule({}, torch.fx.Graph())

    def export(*_: Any) -> GraphModule:
        made.append(True)
        return graph

    monkeypatch.setattr(utils, "_get_aten_graph_module_for_pattern", export)
    monkeypatch.setattr(utils, "_SubgraphMatcherWithNameNodeMap", _NoMatch)
    drawn = []
    for lowering in ("fast", "stock"):
        torch.manual_seed(0)
        annotated(torch.sin, lowering)
        drawn.append(float(torch.rand(1)))
    assert drawn[0] == drawn[1] and len(made) == ALL


class _NoMatch:
    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def match(self, _: Any) -> list[Any]:
        return []


WEIGHT, BIAS, SQUARE = torch.randn(3, 2, 3, 3), torch.randn(3), torch.randn(4, 3)


def layers(x: Tensor) -> Tensor:
    """Activations in place and not, sums and products."""
    x = F.relu(F.conv2d(x, WEIGHT, BIAS), inplace=True)
    x = F.leaky_relu(x + x.sin()) * F.conv2d(x, WEIGHT[:, :1].expand(3, 3, 3, 3), BIAS, padding=1)
    return F.hardswish(F.linear(x, SQUARE, torch.ones(4))).add_(F.gelu(x.sum()))


@pytest.mark.release
def test_annotations_are_upstreams() -> None:
    fast, stock = annotated(layers), annotated(layers, "stock")
    said = [
        {node.name: str(node.meta.get(Q_ANNOTATION_KEY)) for node in graph.graph.nodes}
        for graph in (fast, stock)
    ]
    assert said[0] == said[1]
    assert sum("_annotated=True" in each for each in said[0].values()) > 6


def test_a_layer_and_its_activation_are_annotated() -> None:
    graph = annotated(lambda x: F.relu(F.conv2d(x, WEIGHT, BIAS)))
    conv, relu = (
        next(n for n in graph.graph.nodes if getattr(n.target, "__name__", "") == name)
        for name in ("conv2d.default", "relu.default")
    )
    assert conv.meta[Q_ANNOTATION_KEY].output_qspec is None
    assert relu.meta[Q_ANNOTATION_KEY].output_qspec is not None
    assert coreml_patterns.UNIT.mismatches() == []
