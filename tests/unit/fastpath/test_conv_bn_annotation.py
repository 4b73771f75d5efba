"""Patterns with a batch normalization are looked for where one is; random numbers go on alike."""

from __future__ import annotations

from typing import Any

import nets
import pytest
import torch
from etfast import conv_bn_annotation, graph_operators, path
from etlower import lower
from executorch.backends.xnnpack.quantizer import xnnpack_quantizer_utils as utils
from torch.fx import GraphModule

lower.make_deterministic()


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> list[GraphModule]:
    """The patterns that are exported."""
    result: list[GraphModule] = []
    export = utils._get_aten_graph_module_for_pattern

    def watched(*args: Any) -> GraphModule:
        result.append(export(*args))
        return result[-1]

    monkeypatch.setattr(utils, "_get_aten_graph_module_for_pattern", watched)
    return result


def graph_of(net: torch.nn.Module, *inputs: torch.Tensor) -> GraphModule:
    """A graph as a quantizer takes it."""
    return torch.export.export(net.eval(), inputs, strict=True).module()


def drawn(graph: GraphModule, has_relu: bool, lowering: str) -> float:
    """The random number after a search, in which nothing is annotated."""
    torch.manual_seed(0)
    with path.chosen(lowering):
        assert utils._do_annotate_conv_bn(graph, None, None, has_relu) == []
    return float(torch.rand(1))


@pytest.mark.parametrize("has_relu", [False, True])
def test_where_none_is_none_is_looked_for(has_relu: bool, exports: list[GraphModule]) -> None:
    """Each pattern has the operator, and calibration draws the same numbers after the search."""
    graph = graph_of(torch.nn.Conv2d(3, 8, 3), torch.randn(1, 3, 8, 8))
    assert not graph_operators.has_any(graph, conv_bn_annotation.OPERATORS)
    fast = drawn(graph, has_relu, "fast")
    assert exports == []
    assert drawn(graph, has_relu, "stock") == fast
    assert len(exports) == (4 if has_relu else 2)
    assert all(
        graph_operators.has_any(pattern, conv_bn_annotation.OPERATORS) for pattern in exports
    )


def test_where_one_is_it_is_looked_for(exports: list[GraphModule]) -> None:
    """Quantization after training folds it first; this graph still has it."""
    graph = graph_of(nets.Picture(), torch.randn(1, 3, 8, 8))
    assert graph_operators.has_any(graph, conv_bn_annotation.OPERATORS)
    with path.chosen("fast"):
        utils._do_annotate_conv_bn(graph, None, None, False)
    assert len(exports) == 2
