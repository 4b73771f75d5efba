"""The page of a measurement of layers: sorted bars, the tree of modules, and the front.

Contract: `etcli.report.sensitivity --sensitivity JSON [--choice JSON] --html OUT`, with what
`ettune.sensitivity` and `ettune.choose` write.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etlink.container import REBUILD, write_text
from etlink.json_file import fields_of, read_object

from etcli.report.page import render

# Of the picture of the front, in its own units.
_WIDTH, _HEIGHT, _MARGIN = 640.0, 260.0, 40.0
# What bars and the picture show of a ratio: more is as good as none.
_MOST_DB = 60.0
_UNCHANGED = "the same"


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the page."""
    parser = ToolParser(prog="etcli.report.sensitivity", description=__doc__)
    parser.add_argument("--sensitivity", type=Path, required=True)
    parser.add_argument("--choice", type=Path)
    parser.add_argument("--html", type=Path, required=True)
    options = parser.parse_args(arguments)
    measured = read_object(options.sensitivity, "is not a measurement of layers", REBUILD)
    choice = read_object(options.choice, "is not a choice", REBUILD) if options.choice else None
    with fields_of(options.sensitivity.name, REBUILD):
        html = page(measured, choice)
    write_text(options.html, html)


def page(measured: Mapping[str, Any], choice: Mapping[str, Any] | None = None) -> str:
    """The page.

    Args:
      measured: as `ettune.sensitivity.measure` returns it, with labels.
      choice: as `ettune.choose.choose` returns it; None: nothing was chosen.

    Raises:
      ValueError: a member is missing.
    """
    return render(
        "sensitivity.html.jinja",
        measured=measured,
        choice=choice,
        layers=_bars(measured["layers"], choice),
        tree=_tree(measured["layers"]),
        front=_picture(measured, choice),
    )


def _bars(
    layers: Sequence[Mapping[str, Any]], choice: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """A row for each layer and recipe, the one that costs most first."""
    rows = []
    for layer in layers:
        for number, entry in enumerate(layer["recipes"]):
            if "only" not in entry:
                continue
            ratio = entry["only"]["sqnr_db"]
            rows.append(
                {
                    "name": layer["names"][0],
                    "recipe": entry["recipe"],
                    "only": shown(ratio),
                    "all_but": shown(entry["all_but"]["sqnr_db"]),
                    "perplexity": entry["only"]["perplexity"],
                    "saved": layer["bytes"] - entry["bytes"],
                    "width": round(_part(ratio) * 100, 1),
                    "chosen": choice is not None
                    and choice["layers"].get(layer["names"][0]) == number,
                    "order": (ratio is None, ratio or 0.0, layer["names"][0], number),
                }
            )
    return sorted(rows, key=lambda row: row["order"])


def shown(ratio: float | None) -> str:
    """A ratio for people."""
    return _UNCHANGED if ratio is None else f"{ratio:.1f} dB"


def _part(ratio: float | None) -> float:
    """A ratio as a part of what is shown, from 0 to 1."""
    return 1.0 if ratio is None else min(max(ratio / _MOST_DB, 0.0), 1.0)


@dataclass
class Module:
    """A module of the model, with all that is in it.

    Attributes:
      name: the last part of its qualified name.
      bytes: of the weights of its layers.
      saved: by the last recipe, which is the smallest mostly.
      worst: the least ratio of a layer in it, in dB; None: no layer has noise.
      children: by name.
    """

    name: str
    bytes: int = 0
    saved: int = 0
    worst: float | None = None
    children: dict[str, Module] = field(default_factory=dict)

    @property
    def ratio(self) -> str:
        """The least ratio, for people."""
        return shown(self.worst)


def _tree(layers: Sequence[Mapping[str, Any]]) -> Module:
    """The modules that layers are in; the root is the model."""
    root = Module("model")
    for layer in layers:
        measured = [e["only"]["sqnr_db"] for e in layer["recipes"] if "only" in e]
        ratios = [ratio for ratio in measured if ratio is not None]
        saved = layer["bytes"] - min(entry["bytes"] for entry in layer["recipes"])
        module = root
        for part in ["", *layer["names"][0].split(".")]:
            module = module.children.setdefault(part, Module(part)) if part else root
            module.bytes += layer["bytes"]
            module.saved += saved
            module.worst = min([r for r in (module.worst, *ratios) if r is not None], default=None)
    return root


def _picture(measured: Mapping[str, Any], choice: Mapping[str, Any] | None) -> dict[str, Any]:
    """The front as points of a picture: bytes to the right, exactness upward."""
    by_text = bool(measured["text"])
    points = measured["front"]
    sizes = [point["bytes"] for point in points]
    heights = [_height(point, by_text) for point in points]
    low, high = min(heights), max(heights)
    placed = [
        {
            "x": round(_MARGIN + _scaled(p["bytes"], min(sizes), max(sizes), _WIDTH), 1),
            "y": round(_MARGIN / 2 + _HEIGHT - _scaled(h, low, high, _HEIGHT), 1),
            "title": _title(p, by_text),
            "chosen": choice is not None and _is(p, choice),
        }
        for p, h in zip(points, heights, strict=True)
    ]
    return {
        "points": placed,
        "line": " ".join(f"{p['x']},{p['y']}" for p in placed),
        "width": _WIDTH + 2 * _MARGIN,
        "height": _HEIGHT + 2 * _MARGIN,
        "left": _MARGIN,
        "right": _MARGIN + _WIDTH,
        "bottom": _MARGIN / 2 + _HEIGHT,
        "smallest": min(sizes),
        "largest": max(sizes),
        "axis": "perplexity" if by_text else "SQNR",
    }


def _is(point: Mapping[str, Any], choice: Mapping[str, Any]) -> bool:
    return all(choice["layers"].get(name) == number for name, number in point["layers"].items())


def _height(point: Mapping[str, Any], by_text: bool) -> float:
    return -point["perplexity"] if by_text else _part(point["sqnr_db"])


def _title(point: Mapping[str, Any], by_text: bool) -> str:
    ratio = shown(point["sqnr_db"])
    exact = f"perplexity {point['perplexity']:.4g}, {ratio}" if by_text else ratio
    return f"{point['bytes']:,} bytes: {exact}"


def _scaled(value: float, low: float, high: float, length: float) -> float:
    return length * (value - low) / (high - low) if high > low else length / 2


if __name__ == "__main__":
    sys.exit(main())
