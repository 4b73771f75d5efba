"""Compares what calls of a program cost with bounds: memory, seconds and instructions.

`cases.py` measures memory and seconds while it runs a test's cases. Instructions need a process of
their own (`instructions.py`): one thread, so that no waiting thread counts, and in valgrind where
the processor's counter cannot be had.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from etlower.instructions import count
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


def exceeded(options: argparse.Namespace, run: ProgramRun, measured: Measured) -> list[str]:
    """Compares a run with the bounds of its test, and prints each figure.

    Args:
      options: the command line.
      run: the program; its calls run once more, where instructions are bounded.
      measured: of its cases.

    Returns:
      A sentence per bound that is exceeded.

    Raises:
      BuildError: this machine counts no instructions.
    """
    peak, seconds = measured.rss_bytes / 1e6, measured.call_seconds
    figures: Sequence[tuple[_Bound, Callable[[], tuple[float, str]]]] = (
        (_MEMORY, lambda: (peak, "")),
        (_SECONDS, lambda: (seconds, f", {measured.slowest_call}, the fastest of three")),
        (_INSTRUCTIONS, lambda: _instructions(run, options.valgrind)),
    )
    problems = []
    for bound, figure in figures:
        most = getattr(options, bound.name)
        if most is None:
            continue
        got, where = figure()
        print(f"{options.label}: {bound.figure}: {_text(got)}{bound.unit}{where}")
        if not got <= most:
            problems.append(
                f"{bound.name}: {bound.figure}: got {_text(got)}{bound.unit}{where}, "
                f"expected {_text(most)}{bound.unit} or less. {bound.remedy.format(bound.name)}"
            )
    return problems


def _instructions(run: ProgramRun, valgrind: Path | None) -> tuple[float, str]:
    counted = count(run, valgrind)
    return counted.most, f", {counted.where}, counted by {counted.by}"


def _text(number: float) -> str:
    """A figure with enough digits to set a bound by; thousands apart."""
    if number == math.floor(number):
        return f"{number:,.0f}"
    return f"{number:,.1f}" if number >= 100 else f"{number:.4g}"
