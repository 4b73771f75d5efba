"""Figures of a benchmark, and how they changed since a saved one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from etbuild import BuildError
from etlink.amounts import human_bytes
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
      before: the value of the baseline; None: it has none of that name.
    """

    name: str
    value: float
    unit: str
    before: float | None = None

    @property
    def slowdown(self) -> float | None:
        """The factor by which it became worse: 1.1 is 10% worse; None: nothing to compare."""
        if not self.before or not self.value:
            return None
        # Only speeds are better when they are larger.
        return self.before / self.value if self.unit == "tokens/s" else self.value / self.before

    @property
    def now(self) -> str:
        """The value for people: "1.25 ms", "41.3 tokens/s", "1.5 MB"."""
        return self._text(self.value)

    @property
    def was(self) -> str:
        """The value before, for people; empty: there is none."""
        return "" if self.before is None else self._text(self.before)

    @property
    def change(self) -> str:
        """The change in per cent: "+3.1%"; empty: there is nothing to compare."""
        return f"{100 * (self.value / self.before - 1):+.1f}%" if self.before else ""

    def _text(self, value: float) -> str:
        if self.unit == "bytes":
            return human_bytes(int(value))
        digits = 1 if value >= 100 else 2 if value >= 1 else 3
        return f"{value:.{digits}f} {self.unit}"


def figures(result: Mapping[str, Any], before: Mapping[str, float]) -> list[Figure]:
    """The figures of a benchmark, in the order in which they are shown.

    Args:
      result: what `etcli.measure.measuring` answered, with "file_bytes".
      before: the baseline's values by name; empty: there is none.
    """
    rows: list[tuple[str, float, str]] = []
    first, *again = result["load_seconds"]
    rows.append(("load", 1000 * median(again), "ms"))
    rows.append(("load, the first time", 1000 * first, "ms"))
    for title, case in result["cases"].items():
        rows.append((title, 1000 * median(case["seconds"]), "ms"))
    generation = result.get("generation")
    if generation:
        first_token = generation["first_token_seconds"]
        rows.append(("first token", 1000 * first_token, "ms"))
        rows.append(("reading", generation["prompt_tokens"] / first_token, "tokens/s"))
        if generation["token_seconds"]:
            rows.append(("writing", 1 / median(generation["token_seconds"]), "tokens/s"))
    rows.append(("memory, loaded", result["memory_bytes"]["loaded"], "bytes"))
    rows.append(("memory, after running", result["memory_bytes"]["run"], "bytes"))
    rows.append(("files", result["file_bytes"], "bytes"))
    return [Figure(*row, before.get(row[0])) for row in rows]


@dataclass(frozen=True)
class _Node:
    name: str
    ms: float
    own_ms: float


@dataclass(frozen=True)
class _Modules:
    tree: tuple[_Node, ...]


@dataclass(frozen=True)
class _Events:
    modules: _Modules | None = None


@dataclass(frozen=True)
class Saved:
    """A saved benchmark.

    Attributes:
      format: of the file.
      label: the program.
      figures: by name.
      events: by the title of the case; with modules where the program's report had them.
    """

    format: int
    label: str
    figures: dict[str, float]
    events: dict[str, _Events] = field(default_factory=dict)

    def modules(self, title: str) -> dict[str, tuple[float, float]]:
        """Milliseconds of each module of a case: with the modules in it, and its own."""
        events = self.events.get(title)
        tree = events.modules.tree if events and events.modules else ()
        return {node.name: (node.ms, node.own_ms) for node in tree}


def read(path: Path) -> Saved:
    """A saved benchmark.

    Raises:
      BuildError: it is not one.
    """
    raw = read_object(path, "is not a saved benchmark", _AGAIN)
    try:
        saved = decode(Saved, raw, extra=True)
    except FormError as error:
        raise BuildError(f"{path} is not a saved benchmark: {error}.", _AGAIN) from error
    if saved.format != FORMAT:
        raise BuildError(f"{path}: format: got {saved.format}, expected {FORMAT}.", _AGAIN)
    return saved
