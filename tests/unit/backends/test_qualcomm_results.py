"""Parts for QNN give results in the order in which QNN makes them, or fail."""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import pytest
import qualcomm_results
import torch
from torch.fx import Graph, Node


class Wrapper:
    """Stands for upstream's wrapper of a tensor of QNN's, which has its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def GetName(self) -> str:
        return self._name


def _pieces() -> tuple[Graph, list[Node]]:
    """A split and a sum; the sum stands between the split and its pieces."""
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    split = graph.call_function(torch.ops.aten.split.Tensor, (x, 2))
    total = graph.call_function(torch.ops.aten.add.Tensor, (y, 1))
    second, first = (graph.call_function(operator.getitem, (split, place)) for place in (1, 0))
    graph.output((total, second, first))
    return graph, [split, total, second, first]


def test_pieces_are_right_behind_what_makes_them() -> None:
    _, [split, total, second, first] = _pieces()
    found = qualcomm_results._sorted(list, [split, total, second, first])
    assert found == [split, first, second, total]
    # Of an operator of another part they stay where they are.
    assert qualcomm_results._sorted(list, [total, second, first]) == [total, second, first]


@pytest.mark.parametrize(("is_ordered", "changed"), [(True, {}), (True, {"add": "b"}), (False, {})])
def test_another_order_is_refused(
    monkeypatch: pytest.MonkeyPatch, is_ordered: bool, changed: dict[str, str]
) -> None:
    """The new value of a state has a place of its own."""
    graph, [split, total, second, first] = _pieces()
    [output] = graph.find_nodes(op="output")
    output.args = ((total, first, second),)
    monkeypatch.setattr(
        qualcomm_results,
        "PyQnnManagerAdaptor",
        SimpleNamespace(PyQnnTensorWrapper=lambda wrapper: wrapper),
    )
    kind = "output_mutbuf_0_" if changed else "output_"
    made: dict[str, dict[int, Any]] = {
        "x": {0: Wrapper("input_0_x@0")},
        total.name: {0: Wrapper(f"{kind}{total.name}@0")},
        split.name: {place: Wrapper(f"output_split@{place}") for place in (0, 1)},
    }
    if not is_ordered:
        made = dict(reversed(made.items()))
    signature = SimpleNamespace(buffers_to_mutate={total.name: "b"} if changed else {})
    program = SimpleNamespace(graph=graph, graph_signature=signature)
    if is_ordered:
        qualcomm_results._check(lambda *_: None, program, made)
    else:
        said = r"QNN has the results \[\('split.* expected \[\('add"
        with pytest.raises(RuntimeError, match=said):
            qualcomm_results._check(lambda *_: None, program, made)
