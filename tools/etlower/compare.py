"""Runs a program in ExecuTorch's runtime and compares it with what the eager model gives.

Contract: `etlower.compare --label L --program PTE [--program_data PTD]… --manifest JSON
--expected FILE [--method M]… [--runner FILE] [--executorch_version V [--older VERSION RUNNER
LIBRARY PYTHON_NAMES]…] [--atol A --rtol R] [--min_sqnr_db D] [--allow_weak_slices]`; 1 on a
difference, and for a part of an output that is dead (`dead_slices.py`). Program and data files are
checked against the manifest before they are loaded.

It imports no torch, which alone takes seconds: people run tests far more often than they lower. The
eager model's outputs come from EtExpect's file (`expected.py`). The C++ runner runs each case in a
process of its own, so that a state such as a KV cache is fresh, and a crash is an error like
others; a case of several calls in a row shows whether the state survives. What the runner lacks (an
operator, a backend, a value that its files have no form for) runs in the wheel's Python runtime
(`python_runtime.py`), whose process imports torch. The choice follows from the program's tables and
from what the runner has, never from an attempt that failed.
On older runtimes (`older.py`) there is only the runner.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from etlink import manifest, merge, process

from etlower import expected, failure, older
from etlower.dead_slices import Slices, Weak
from etlower.native import Measured, ProgramRun, Runner, case_differences, cases_have_forms
from etlower.outputs import Tolerance
from etlower.progress import Progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    options = _parser().parse_args(arguments)
    progress = Progress()
    work = Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    try:
        problems = compare(options, progress, work)
    except Exception as error:
        sys.stderr.write(failure.message(error, options.label, progress, work, None))
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for problem in problems:
        print(f"FAILED: {options.label}: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="etlower.compare", allow_abbrev=False)
    parser.add_argument("--label", required=True)
    for name in ("program", "manifest", "expected"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--program_data", type=Path, action="append", default=[])
    parser.add_argument("--method", action="append", default=[])
    parser.add_argument("--runner", type=Path)
    parser.add_argument("--executorch_version", default="")
    parser.add_argument("--older", nargs=4, action="append", default=[])
    parser.add_argument("--atol", type=float, default=math.inf)
    parser.add_argument("--rtol", type=float, default=0.0)
    parser.add_argument("--min_sqnr_db", type=float)
    parser.add_argument("--allow_weak_slices", action="store_true")
    return parser


def compare(options: argparse.Namespace, progress: Progress, work: Path) -> list[str]:
    """Compares all methods on all of their inputs.

    Args:
      options: the command line.
      progress: told of the stage.
      work: a folder for the program's outputs.

    Returns:
      One sentence per output that differs; empty: all agree.

    Raises:
      BuildError: a file is missing, damaged or another one than the program was built with; the
        runtime cannot run the program, or crashed.
    """
    data = manifest.check(manifest.read(options.manifest), options.program, options.program_data)
    cases = expected.chosen(expected.read(options.expected), options.method)
    tolerance = Tolerance(options.atol, options.rtol, options.min_sqnr_db)
    runner = Runner(options.runner) if options.runner else None
    run = ProgramRun(options.program, data, options.expected, work)
    measured, slices = Measured(), Slices()
    problems = []
    with progress.stage("compare"):
        native = runner and cases_have_forms(cases) and not runner.missing(options.program)
        outputs = runner.run(run, cases, measured) if native else _in_python(options, data, work)
        for case, got in zip(cases, outputs, strict=True):
            if options.older:
                measured.compare(case, got)
            problems += case_differences(case, got, tolerance)
            if not case.constant:
                slices.add(case.method, got, case.outputs)
    if not options.allow_weak_slices:
        problems += map(_weak, slices.weak())
    if options.older:
        with progress.stage("older runtimes"):
            rows = [(options.executorch_version, measured)]
            problems += older.compare(options.older, run, cases, tolerance, rows)
    return problems


def _weak(part: Weak) -> str:
    return (
        f'method "{part.method}", output {part.output}, {part.text}. Values of very different '
        "ranges may have one scale there: quantize them apart, or leave that layer in float. If "
        "the part does not matter, set allow_weak_slices = True"
    )


def _in_python(
    options: argparse.Namespace, data: Sequence[Path], work: Path
) -> Iterator[Sequence[Any]]:
    """The outputs of each case, by the Python runtime."""
    output = work / "outputs.safetensors"
    # It loads one data file only.
    merged = merge.merge(data, work / "merged.ptd") if data else None
    request = {
        "program": options.program,
        "data": merged or "",
        "expected": options.expected,
        "methods": options.method,
        "output": output,
    }
    process.ask("etlower.python_runtime", request, work, options.program.name)
    for case in expected.read(output):
        yield case.outputs


if __name__ == "__main__":
    sys.exit(main())
