"""Runs a program on older versions of ExecuTorch, in the runner with the runtime of each one's wheel.

Such a runner finds torch's libraries and stand-ins for Python's in LD_LIBRARY_PATH
(//toolchains/runtime:older.bzl says why).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from etbuild.errors import BuildError
from etlink.process import ROOTS

from etexport.expected import Case
from etexport.native import Measured, ProgramRun, Runner, case_has_forms
from etexport.outputs import Tolerance, case_differences


def compare(
    runtimes: Sequence[tuple[str, str, str]],
    run: ProgramRun,
    cases: Sequence[Case],
    tolerance: Tolerance,
    current: Measured,
) -> list[str]:
    """Runs the cases on each version, and prints a table.

    Args:
      runtimes: version, runner, and a library in the folder of stand-ins, of each.
      run: the program.
      cases: inputs, and the eager model's outputs.
      tolerance: what is allowed.
      current: of the exporter's own version.

    Returns:
      One sentence per output that differs, and per version that cannot run the program.
    """
    rows = [("exporter's", current)]
    problems = []
    for version, runner, stand_in in runtimes:
        measured = Measured()
        try:
            found = _compare(version, _runner(runner, stand_in), run, cases, tolerance, measured)
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
    if not case_has_forms(cases):
        raise BuildError(
            "an input or output is neither a tensor nor a number, expected one of these: older runtimes run in the runner."
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


def _runner(runner: str, stand_in: str) -> Runner:
    roots = os.environ.get(ROOTS, "").split(os.pathsep)
    torch = [str(folder) for root in roots if (folder := Path(root, "torch/lib")).is_dir()]
    # Those for Python come first: torch has a library of the same name.
    folders = [str(Path(stand_in).absolute().parent), *torch]
    return Runner(Path(runner), {"LD_LIBRARY_PATH": os.pathsep.join(folders)})


def table(rows: Sequence[tuple[str, Measured]]) -> str:
    """The measurements as a table: a line of titles, and one for each version."""
    lines = [("runtime", "largest difference", "load ms", "peak MB")]
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
