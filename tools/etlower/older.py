"""Runs a program on older versions of ExecuTorch: the same library, with the runtime of a wheel.

Such a library finds its runtime, torch's libraries and Python's names in LD_LIBRARY_PATH
(//toolchains/runtime:older.bzl says why).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from etbuild.errors import BuildError
from etlink.process import ROOTS

from etlower.expected import Case
from etlower.outputs import Tolerance
from etlower.runs import Measured, ProgramRun, case_differences


def compare(
    runtimes: Sequence[tuple[str, str, str, str]],
    run: ProgramRun,
    cases: Sequence[Case],
    tolerance: Tolerance,
    rows: list[tuple[str, Measured]],
) -> list[str]:
    """Runs the cases on each version, and prints a table.

    Args:
      runtimes: of each: version, library, a library of the runtime, and one with Python's names.
      run: the program.
      cases: inputs, and the eager model's outputs.
      tolerance: what is allowed.
      rows: version and measurements of runs before these; grows.

    Returns:
      One sentence per output that differs, and per version that cannot run the program.
    """
    problems = []
    for version, library, *others in runtimes:
        print(f"ExecuTorch {version}:")
        try:
            outputs, measured = run.run(Path(library), version, environment(others))
        except BuildError as error:
            rows.append((version, Measured(largest=float("inf"))))
            problems.append(f"ExecuTorch {version}: {error.what}")
            continue
        for case, got in zip(cases, outputs, strict=True):
            measured.compare(case, got)
            found = case_differences(case, got, tolerance)
            problems += [f"ExecuTorch {version}: {problem}" for problem in found]
        rows.append((version, measured))
    print(table(rows))
    return problems


def environment(libraries: Sequence[str]) -> dict[str, str]:
    """Variables with which an older library finds the others."""
    roots = os.environ.get(ROOTS, "").split(os.pathsep)
    torch = [str(folder) for root in roots if (folder := Path(root, "torch/lib")).is_dir()]
    # Before torch's: a library of Python's names is called like one of these.
    folders = [*(str(Path(library).absolute().parent) for library in libraries), *torch]
    given = os.environ.get("LD_LIBRARY_PATH", "")
    return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, [*folders, given]))}


def table(rows: Sequence[tuple[str, Measured]]) -> str:
    """The measurements as a table: a line of titles, and one for each version."""
    lines = [("ExecuTorch", "largest difference", "load ms", "peak MB")]
    for name, measured in rows:
        load = f"{measured.load_ms:.1f}" if measured.load_ms else "-"
        peak = f"{measured.peak_bytes / 1e6:.1f}" if measured.peak_bytes else "-"
        lines.append((name, f"{measured.largest:.3g}", load, peak))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(w) if n else cell.ljust(w)
            for n, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
