"""Runs a program on older versions of ExecuTorch: in the runner with the runtime of a wheel.

Such a runner finds its runtime, torch's libraries and Python's names in LD_LIBRARY_PATH
(//toolchains/runtime:older.bzl says why).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from etbuild.errors import BuildError
from etlink.process import ROOTS

from etlower.expected import Case
from etlower.native import Measured, ProgramRun, Runner, case_differences, cases_have_forms
from etlower.outputs import Tolerance


def compare(
    runtimes: Sequence[tuple[str, str, str, str]],
    run: ProgramRun,
    cases: Sequence[Case],
    tolerance: Tolerance,
    rows: list[tuple[str, Measured]],
) -> list[str]:
    """Runs the cases on each version, and prints a table.

    Args:
      runtimes: of each: version, runner, a library of the runtime, and one with Python's names.
      run: the program.
      cases: inputs, and the eager model's outputs.
      tolerance: what is allowed.
      rows: version and measurements of runs before these; grows.

    Returns:
      One sentence per output that differs, and per version that cannot run the program.
    """
    problems = []
    for version, runner, *libraries in runtimes:
        print(f"ExecuTorch {version}:")
        measured = Measured()
        try:
            found = _compare(version, _runner(runner, libraries), run, cases, tolerance, measured)
        except BuildError as error:
            found = [error.what]
            measured.largest = float("inf")
        rows.append((version, measured))
        problems += [f"ExecuTorch {version}: {problem}" for problem in found]
    print(table(rows))
    return problems


def _compare(
    version: str,
    runner: Runner,
    run: ProgramRun,
    cases: Sequence[Case],
    tolerance: Tolerance,
    measured: Measured,
) -> list[str]:
    got_version = runner.info()["version"]
    if got_version != version:
        raise BuildError(f"version of the runtime: got {got_version}, expected {version}.")
    if not cases_have_forms(cases):
        raise BuildError(
            "an input or output is neither a tensor nor a number, and the runner takes no others."
        )
    missing = runner.missing(run.program)
    if missing:
        raise BuildError(f"the runtime lacks {', '.join(missing)}.")
    # The files of one version must not be read as another's.
    own = dataclasses.replace(run, work=run.work / version)
    problems = []
    for case, got in zip(cases, runner.run(own, cases, measured), strict=True):
        measured.compare(case, got)
        problems += case_differences(case, got, tolerance)
    return problems


def _runner(runner: str, libraries: Sequence[str]) -> Runner:
    roots = os.environ.get(ROOTS, "").split(os.pathsep)
    torch = [str(folder) for root in roots if (folder := Path(root, "torch/lib")).is_dir()]
    # Before torch's: a library of Python's names is called like one of these.
    folders = [*(str(Path(library).absolute().parent) for library in libraries), *torch]
    return Runner(Path(runner), {"LD_LIBRARY_PATH": os.pathsep.join(folders)})


def table(rows: Sequence[tuple[str, Measured]]) -> str:
    """The measurements as a table: a line of titles, and one for each version."""
    lines = [("ExecuTorch", "largest difference", "load ms", "peak MB")]
    for name, measured in rows:
        load = "-" if measured.load_ms is None else f"{measured.load_ms:.1f}"
        peak = "-" if measured.peak_bytes is None else f"{measured.peak_bytes / 1e6:.1f}"
        lines.append((name, f"{measured.largest:.3g}", load, peak))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(w) if n else cell.ljust(w)
            for n, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
