"""Rectangles that fill the map, as large as what they stand for."""

from __future__ import annotations

import random

import pytest
from etcli.report.treemap import Cell, Node, layout


def area(cell: Cell) -> float:
    """Of a cell, in per cent of the rectangle around it."""
    return cell.width * cell.height / 100


def overlap(a: Cell, b: Cell) -> bool:
    """Tells whether two cells share more than an edge."""
    apart = 0.01
    return (
        a.left + a.width > b.left + apart
        and b.left + b.width > a.left + apart
        and a.top + a.height > b.top + apart
        and b.top + b.height > a.top + apart
    )


@pytest.mark.parametrize("aspect", [0.5, 1.6, 4.0])
def test_areas_are_sizes(aspect: float) -> None:
    generator = random.Random(1)
    nodes = [Node(str(n), generator.randint(1, 1000) ** 2) for n in range(60)]
    cells = layout(nodes, aspect, least=0.0)
    whole = sum(n.size for n in nodes)
    assert [c.node.size for c in cells] == sorted((n.size for n in nodes), reverse=True)
    for cell in cells:
        assert area(cell) == pytest.approx(100 * cell.node.size / whole, abs=0.02)
        assert cell.left >= 0 and cell.left + cell.width <= 100.01
        assert cell.top >= 0 and cell.top + cell.height <= 100.01
    assert not [(a, b) for a in cells for b in cells if a is not b and overlap(a, b)]


def test_rectangles_are_no_strips() -> None:
    cells = layout([Node(str(n), 1) for n in range(24)], 1.5)
    for cell in cells:
        assert 0.5 < (cell.width * 1.5) / cell.height < 2


def test_inner_cells_and_their_shares() -> None:
    inner = (Node("a", 30), Node("b", 10))
    [outer, rest] = layout([Node("group", 40, children=inner), Node("rest", 10)])
    assert [c.node.name for c in outer.cells] == ["a", "b"]
    assert [c.share for c in (outer, *outer.cells, rest)] == [80.0, 60.0, 20.0, 20.0]
    assert sum(area(c) for c in outer.cells) == pytest.approx(100, abs=0.01)


def test_the_small_are_taken_together() -> None:
    nodes = [Node("large", 1_000_000), *(Node(f"s{n}", 10) for n in range(30))]
    cells = layout(nodes)
    assert [(c.node.name, c.node.size) for c in cells] == [
        ("large", 1_000_000),
        ("30 smaller", 300),
    ]
    assert layout([]) == layout([Node("empty", 0)]) == ()
