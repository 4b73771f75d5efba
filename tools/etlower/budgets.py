"""Compares runs of variants with the budgets of their classes of devices.

Contract: `etlower.budgets --label L --table VARIANTS.json --programs PROGRAMS.json [--valgrind
PROGRAM]`; 1 if a variant exceeds a budget, or none of them runs here. The table is that of
et_variants, with `budgets`. PROGRAMS.json lists those that this machine may run: `label`,
`program`, `manifest`, `expected`, `data` and `methods`; a test of the rules writes it.

A program whose backend or operator this machine's runtime lacks is left out, with a sentence: a
figure of something else would say nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etlink.json_file import fields_of, read_object
from etlink.process import ask

from etlower import costs, failure
from etlower.progress import Progress
from etlower.runs import ProgramRun

_HINT = "Build the target again."


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    parser = argparse.ArgumentParser(prog="etlower.budgets", allow_abbrev=False)
    parser.add_argument("--label", required=True)
    for name in ("table", "programs", "valgrind"):
        parser.add_argument(f"--{name}", type=Path, required=name != "valgrind")
    options = parser.parse_args(arguments)
    return failure.run_test(options.label, lambda *places: compare(options, *places))


def compare(options: argparse.Namespace, progress: Progress, work: Path) -> list[str]:
    """Runs each program that has a budget.

    Returns:
      A sentence per budget that a program exceeds.

    Raises:
      BuildError: none runs here, or one failed.
    """
    budgets = read_object(options.table, "is not a table of variants", _HINT)["budgets"]
    listed = read_object(options.programs, "is not a list of programs", _HINT)["programs"]
    problems, ran = [], 0
    with progress.stage("compare"), fields_of(options.table, _HINT):
        for entry in listed:
            classes = [b for b in budgets if entry["label"] in b["programs"]]
            if not classes:
                continue
            lacks = _lacks(entry, work)
            if lacks:
                print(f"{entry['label']}: not run: this machine's runtime lacks {lacks}")
                continue
            problems += _compare(entry, classes, options.valgrind, work)
            ran += 1
    if not ran:
        raise BuildError(
            f"{options.label}: no program with a budget runs on this machine.",
            "Remove budgets, or measure the programs on devices (et_app_benchmark).",
        )
    return problems


def _lacks(entry: Mapping[str, Any], work: Path) -> str:
    request = {"program": Path(entry["program"]).absolute()}
    answer = ask("etlower.cases", {**request, "asks": "missing"}, work, entry["label"])
    return ", ".join(answer["missing"])


def _compare(
    entry: Mapping[str, Any],
    classes: Sequence[Mapping[str, Any]],
    valgrind: Path | None,
    work: Path,
) -> list[str]:
    run = ProgramRun(
        Path(entry["program"]),
        [Path(path) for path in entry["data"]],
        Path(entry["manifest"]),
        Path(entry["expected"]),
        entry["methods"],
        work,
        times_calls=True,
    )
    figures = costs.Figures(run, run.run()[1], valgrind)
    problems = []
    for row in classes:
        where = f"{entry['label']} for {row['class']} ({row['devices']} devices)"
        problems += [f"{where}: {p}" for p in costs.exceeded(where, row["bounds"], figures)]
    return problems


if __name__ == "__main__":
    sys.exit(main())
