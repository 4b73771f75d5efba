"""Squarified treemaps: nested rectangles whose areas are bytes.

Source: Bruls, Huizing, van Wijk: Squarified Treemaps, 2000.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Node:
    """An item that is drawn as a rectangle, with the items inside of it.

    Attributes:
      name: for people.
      size: bytes; of a node with children: at least theirs.
      kind: decides its color.
      detail: more about it, for the tooltip.
      children: nodes inside of it.
    """

    name: str
    size: int
    kind: str = ""
    detail: str = ""
    children: tuple[Node, ...] = field(default=())


@dataclass(frozen=True)
class Cell:
    """A rectangle in per cent of the one around it.

    Attributes:
      node: its item.
      left: per cent of the width, from the left.
      top: per cent of the height, from above.
      width: per cent.
      height: per cent.
      share: of all bytes of the map, in per cent.
      cells: rectangles inside of it.
    """

    node: Node
    left: float
    top: float
    width: float
    height: float
    share: float
    cells: tuple[Cell, ...] = ()


def layout(
    nodes: Sequence[Node], aspect: float = 1.6, total: int = 0, least: float = 0.0005
) -> tuple[Cell, ...]:
    """Lays nodes out, the largest first.

    Args:
      nodes: those without bytes are left out.
      aspect: width of the rectangle around them divided by its height.
      total: bytes of the whole map; 0: those of `nodes`.
      least: share of the whole map below which nodes of one level become one, "N smaller".

    Returns:
      Cells that fill the rectangle, in the order of their sizes.
    """
    total = total or sum(n.size for n in nodes)
    shown = _with_the_small_together([n for n in nodes if n.size > 0], total * least)
    if not shown:
        return ()
    whole = sum(n.size for n in shown)
    # In units in which the rectangle is `aspect` wide, 1 high, and a node's area its share.
    areas = [n.size / whole * aspect for n in shown]
    cells = []
    for node, (x, y, w, h) in zip(shown, _squarify(areas, 0.0, 0.0, aspect, 1.0), strict=True):
        inner = layout(node.children, w / h if h else 1.0, total, least) if node.children else ()
        percent = (x / aspect * 100, y * 100, w / aspect * 100, h * 100)
        share = round(node.size / total * 100, 2)
        cells.append(Cell(node, *(round(p, 3) for p in percent), share, inner))
    return tuple(cells)


def _with_the_small_together(nodes: Sequence[Node], least: float) -> list[Node]:
    large = [n for n in nodes if n.size >= least]
    small = [n for n in nodes if n.size < least]
    if len(small) > 1:
        size = sum(n.size for n in small)
        large.append(Node(f"{len(small)} smaller", size, small[0].kind))
    else:
        large += small
    return sorted(large, key=lambda n: (-n.size, _natural(n.name)))


def _natural(name: str) -> list[tuple[int, str]]:
    """A key by which layers.2 comes before layers.10."""
    return [(int(p), "") if p.isdecimal() else (-1, p) for p in re.split(r"(\d+)", name)]


Rectangle = tuple[float, float, float, float]


def _squarify(areas: Sequence[float], x: float, y: float, w: float, h: float) -> list[Rectangle]:
    """Places areas, the largest first, in rows along the shorter side."""
    rectangles: list[Rectangle] = []
    start = 0
    while start < len(areas):
        side = min(w, h)
        end, worst = start + 1, _worst(areas[start : start + 1], side)
        while end < len(areas):
            longer = _worst(areas[start : end + 1], side)
            if longer > worst:
                break
            end, worst = end + 1, longer
        row = areas[start:end]
        depth = sum(row) / side if side else 0.0
        along = 0.0
        for area in row:
            length = area / depth if depth else 0.0
            if w >= h:
                rectangles.append((x, y + along, depth, length))
            else:
                rectangles.append((x + along, y, length, depth))
            along += length
        if w >= h:
            x, w = x + depth, w - depth
        else:
            y, h = y + depth, h - depth
        start = end
    return rectangles


def _worst(row: Sequence[float], side: float) -> float:
    """The largest ratio of sides in a row along a side."""
    whole = sum(row)
    if not whole or not side:
        return 0.0
    depth = whole / side
    return max(max(depth * depth / area, area / (depth * depth)) for area in row if area)
