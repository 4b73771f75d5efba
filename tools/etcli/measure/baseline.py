"""Figures of a benchmark, and how they changed since a saved one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from etbuild import BuildError
from etlink.json_file import FormError, decode, read_object

FORMAT = 1
_AGAIN = "Save one with --save, by the same version of these rules."


@dataclass(frozen=True)
class Figure:
    """One number of a benchmark.

    Attributes:
      name: for people, the same each time.
      value: in the unit.
      unit: "ms", "tokens/s" or "bytes".
    """

    name: str
    value: float
    unit: str

    @property
    def more_is_better(self) -> bool:
        """Whether a larger value is an improvement."""
        return self.unit == "tokens/s"

    def slowdown(self, before: float) -> float | None:
        """How many times worse than a value before: 1.1 is 10% worse; None: nothing to compare."""
        if not before or not self.value:
            return None
        return before / self.value if self.more_is_better else self.value / before


def figures(found: Mapping[str, Any]) -> list[Figure]:
    """The figures of a benchmark, in the order in which they are shown.

    Args:
      found: what `etcli.measure.measuring` returned, with "file_bytes".
    """
    first, *again = found["load_seconds"]
    made = [
        Figure("load", 1000 * median(again), "ms"),
        Figure("load, the first time", 1000 * first, "ms"),
    ]
    for title, case in found["cases"].items():
        made.append(Figure(title, 1000 * median(case["seconds"]), "ms"))
    generation = found.get("generation")
    if generation:
        first_token = generation["first_token_seconds"]
        made.append(Figure("first token", 1000 * first_token, "ms"))
        made.append(Figure("reading", generation["prompt_tokens"] / first_token, "tokens/s"))
        if generation["token_seconds"]:
            rate = 1 / median(generation["token_seconds"])
            made.append(Figure("writing", rate, "tokens/s"))
    memory = found["memory_bytes"]
    made.append(Figure("memory, loaded", memory["loaded"], "bytes"))
    made.append(Figure("memory, after running", memory["run"], "bytes"))
    made.append(Figure("files", found["file_bytes"], "bytes"))
    return made


@dataclass(frozen=True)
class _Saved:
    format: int
    label: str
    figures: dict[str, float]


def read(path: Path) -> dict[str, float]:
    """The figures of a saved benchmark, by name.

    Raises:
      BuildError: it is none.
    """
    raw = read_object(path, "is no saved benchmark", _AGAIN)
    try:
        saved = decode(_Saved, raw, extra=True)
    except FormError as error:
        raise BuildError(f"{path} is no saved benchmark: {error}.", _AGAIN) from error
    if saved.format != FORMAT:
        raise BuildError(f"{path}: got format {saved.format}, wanted {FORMAT}.", _AGAIN)
    return saved.figures
