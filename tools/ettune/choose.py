"""EtChoose: takes the program of a measured front that keeps a bound, without torch.

Contract: `ettune.choose --label L --sensitivity JSON --output JSON` with one of `--max_bytes B`,
`--min_sqnr_db N` and `--max_perplexity P` (a number, or "1.02x": that many times the float
model's).

The output has `bound`, the `recipes`, and of the chosen program `bytes`, `sqnr_db`, `perplexity`
and the number of each layer's recipe as `layers`, by all names of the layer.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etbuild.errors import BuildError
from etlink.amounts import bytes_of, human_bytes
from etlink.container import REBUILD
from etlink.json_file import read_object, write_json

BOUNDS = ("max_bytes", "min_sqnr_db", "max_perplexity")


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the choice."""
    parser = ToolParser(prog="ettune.choose", description=__doc__)
    parser.add_argument("--label", required=True, help="the recipe")
    parser.add_argument("--sensitivity", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    for name in BOUNDS:
        parser.add_argument(f"--{name}", default="")
    options = parser.parse_args(arguments)
    measured = read_object(options.sensitivity, "is not a measurement of layers", REBUILD)
    name = next(bound for bound in BOUNDS if getattr(options, bound))
    write_json(options.output, choose(measured, name, getattr(options, name), options.label))


def choose(measured: Mapping[str, Any], bound: str, value: str, label: str) -> dict[str, Any]:
    """The choice.

    Args:
      measured: as `sensitivity.measure` returns it.
      bound: one of `BOUNDS`.
      value: its value, as the user wrote it.
      label: the recipe, for messages.

    Returns:
      The most exact program of at most `max_bytes`; or the smallest one that keeps a bound of
      exactness.

    Raises:
      BuildError: no program keeps the bound; with the nearest one that can be kept.
    """
    front = measured["front"]
    where = f'{label}: {bound}: got "{value}"'
    if bound == "max_bytes":
        most = bytes_of(value, f"{label}: {bound}")
        fits = [point for point in front if point["bytes"] <= most]
        nearest = min(point["bytes"] for point in front)
        if not fits:
            raise BuildError(
                f"{where}, expected at least {nearest} bytes ({human_bytes(nearest)}), the weights "
                "of the smallest mixture.",
                "Raise the bound, or add a smaller recipe to choices.",
            )
        chosen = max(fits, key=lambda point: (exactness(point, measured), -point["bytes"]))
    else:
        chosen = _exact_enough(measured, bound, value, where)
    numbers = {row["names"][0]: row["names"] for row in measured["layers"]}
    layers = {n: number for name, number in chosen["layers"].items() for n in numbers[name]}
    return {
        "label": label,
        "bound": {"name": bound, "value": value},
        "recipes": measured["recipes"],
        **{key: chosen[key] for key in ("bytes", "sqnr_db", "perplexity")},
        "layers": dict(sorted(layers.items())),
    }


def _exact_enough(
    measured: Mapping[str, Any], bound: str, value: str, where: str
) -> Mapping[str, Any]:
    front = measured["front"]
    if bound == "min_sqnr_db":
        least = float(value)
        fits = [point for point in front if _ratio(point) >= least]
        best = max(map(_ratio, front))
        nearest = f"at most {best:.2f} dB, the ratio of the most exact mixture"
    else:
        eager = measured["float"]["perplexity"]
        factor = value.removesuffix("x")
        most = float(factor) * (eager if factor != value else 1.0)
        fits = [point for point in front if point["perplexity"] <= most]
        best = min(point["perplexity"] for point in front)
        nearest = f"at least {best:.4f} ({best / eager:.4f}x), that of the most exact mixture"
    if not fits:
        raise BuildError(
            f"{where}, expected {nearest}.",
            "Relax the bound, or add a more exact recipe, such as fp32, to choices.",
        )
    return min(fits, key=lambda point: (point["bytes"], -_ratio(point)))


def _ratio(point: Mapping[str, Any]) -> float:
    return math.inf if point["sqnr_db"] is None else point["sqnr_db"]


def exactness(point: Mapping[str, Any], measured: Mapping[str, Any]) -> float:
    """Larger is better: by the perplexity of a text, or else by the ratio in dB."""
    return -point["perplexity"] if measured["text"] else _ratio(point)


if __name__ == "__main__":
    sys.exit(main())
