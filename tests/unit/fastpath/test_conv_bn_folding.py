"""Training's normalizations are looked for where a graph takes square roots."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from etfast import conv_bn_folding, graph_operators, path
from etlower import lower
from torch.fx import GraphModule
from torch.nn import functional as F
from torchao.quantization.pt2e import qat_utils

lower.make_deterministic()


class _Net(torch.nn.Module):
    def __init__(self, last: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(3)
        self.last = last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(x))


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> list[GraphModule]:
    """The patterns that are exported; the search itself is another test's."""
    result: list[GraphModule] = []

    def watched(*_: Any, **__: Any) -> GraphModule:
        result.append(GraphModule({}, torch.fx.Graph()))
        return result[-1]

    monkeypatch.setattr(qat_utils, "_get_aten_graph_module_for_pattern", watched)
    monkeypatch.setattr(qat_utils, "replace_pattern_with_filters", lambda *_, **__: [])
    return result


def drawn(last: Callable[[torch.Tensor], torch.Tensor], lowering: str) -> float:
    """Returns the first random number after the patterns were searched for."""
    graph = torch.export.export(_Net(last).eval(), (torch.randn(1, 3, 4, 4),), strict=True).module()
    torch.manual_seed(0)
    with path.chosen(lowering):
        qat_utils._fold_conv_bn_qat(graph)
    return float(torch.rand(1))


@pytest.mark.parametrize(("last", "patterns"), [(F.relu, 0), (torch.sqrt, 96)])
def test_is_looked_for_where_it_could_be(
    last: Callable[[torch.Tensor], torch.Tensor], patterns: int, exports: list[GraphModule]
) -> None:
    """Random numbers after the search are the same."""
    fast = drawn(last, "fast")
    assert len(exports) == patterns
    assert drawn(last, "stock") == fast
    assert len(exports) == patterns + 96


@pytest.mark.parametrize(
    ("per_channel", "has_bias"), [*itertools.product([False, True], [False, True])]
)
def test_each_pattern_takes_a_square_root(per_channel: bool, has_bias: bool) -> None:
    """Of one convolution and one mode: the other ones differ in no operator but these."""
    pattern = qat_utils._get_quantized_qat_conv_bn_pattern(
        per_channel, has_bias, has_bias, F.conv2d, False
    )
    kwargs = qat_utils._get_quantized_conv_bn_example_inputs_kwargs(
        per_channel, has_bias, has_bias, False
    )
    shapes = ((1, 1, 3, 3), (1, 1, 1, 1), (1,), (1,), (1,), (1,))
    inputs = tuple(torch.randn(shape) for shape in shapes)
    graph = qat_utils._get_aten_graph_module_for_pattern(pattern, inputs, False, **kwargs)
    assert graph_operators.has_any(graph, conv_bn_folding.OPERATORS)
