"""Compares what calls of a program cost with bounds: memory, seconds and instructions.

`cases.py` measures memory and seconds while it runs a test's cases. Instructions need a process of
their own (`instructions.py`): one thread, so that no waiting thread counts, and in valgrind where
the processor's counter cannot be had.
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from etlower.instructions import Count, count
from etlower.runs import Measured, ProgramRun

_SMALLER = "Raise {0}, or make weights or inputs smaller: quantize, or bound dynamic dimensions."
_FASTER = "Raise {0}, or delegate more operators: the program's report names those that are not."


@dataclass(frozen=True)
class _Bound:
    """A bound of a test.

    Attributes:
      name: of the attribute.
      figure: what is bounded, for people.
      unit: of the figure.
      remedy: what to do, with the attribute's name.
    """

    name: str
    figure: str
    unit: str
    remedy: str


_MEMORY = _Bound("max_rss_mb", "peak of the process's memory", " MB", _SMALLER)
_SECONDS = _Bound("max_seconds_per_call", "seconds of a call", " s", _FASTER)
_INSTRUCTIONS = _Bound("max_instructions", "instructions of a call", "", _FASTER)
BOUNDS = (_MEMORY, _SECONDS, _INSTRUCTIONS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the bounds to a command line, and where valgrind is."""
    for bound in BOUNDS:
        parser.add_argument(f"--{bound.name}", type=float)
    parser.add_argument("--valgrind", type=Path)


def bounds_of(options: argparse.Namespace) -> dict[str, float]:
    """Reads the bounds of a command line, by name."""
    values = {bound.name: getattr(options, bound.name) for bound in BOUNDS}
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Figures:
    """Costs of a program.

    Attributes:
      run: the program; its calls run once more, where instructions are bounded.
      measured: of its cases.
      valgrind: the program `valgrind.bin`; None: there is none.
    """

    run: ProgramRun
    measured: Measured
    valgrind: Path | None

    def of(self, bound: _Bound) -> tuple[float, str]:
        """The figure of a bound, and what it is of, for people.

        Raises:
          BuildError: this machine counts no instructions.
        """
        if bound is _MEMORY:
            return self.measured.rss_bytes / 1e6, ""
        if bound is _SECONDS:
            slowest = f", {self.measured.slowest_call}, the fastest of three"
            return self.measured.call_seconds, slowest
        counted = self._counted
        return counted.most, f", {counted.where}, counted by {counted.by}"

    @functools.cached_property
    def _counted(self) -> Count:
        return count(self.run, self.valgrind)


def exceeded(label: str, bounds: Mapping[str, float], figures: Figures) -> list[str]:
    """Compares a program's costs with bounds, and prints each figure.

    Args:
      label: of what has the bounds, for people.
      bounds: by name.
      figures: of the program.

    Returns:
      A sentence per bound that is exceeded.

    Raises:
      BuildError: this machine counts no instructions.
    """
    problems = []
    for bound in BOUNDS:
        if bound.name not in bounds:
            continue
        most = bounds[bound.name]
        got, where = figures.of(bound)
        print(f"{label}: {bound.figure}: {_text(got)}{bound.unit}{where}")
        if not got <= most:
            problems.append(
                f"{bound.name}: {bound.figure}: got {_text(got)}{bound.unit}{where}, "
                f"expected {_text(most)}{bound.unit} or less. {bound.remedy.format(bound.name)}"
            )
    return problems


def _text(number: float) -> str:
    """A figure with enough digits to set a bound by; thousands apart."""
    if number == math.floor(number):
        return f"{number:,.0f}"
    return f"{number:,.1f}" if number >= 100 else f"{number:.4g}"
