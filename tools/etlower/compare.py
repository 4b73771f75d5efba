"""Runs a program in ExecuTorch's runtime and compares it with what the eager model gives.

Contract: `etlower.compare --label L --program PTE [--program_data PTD]… --manifest JSON
--expected FILE [--method M]… [--runs_in TEXT] [--executorch_version V [--older VERSION LIBRARY CORE
PYTHON_NAMES]…] [--atol A --rtol R] [--min_sqnr_db D] [--metric NAME --min M [--decode NAME]
[--root FOLDER]…] [--allow_weak_slices] [--max_rss_mb M] [--max_seconds_per_call S]
[--max_instructions N [--valgrind PROGRAM]]`; 1 on a difference, for a part of an output that is
dead (`dead_slices.py`), and for a call that costs more than a bound (`costs.py`). The runtime
checks program and data files against the manifest before it loads them.

It imports no torch, which alone takes seconds: people run tests far more often than they lower. The
eager model's outputs come from EtExpect's file (`expected.py`). `cases.py` runs the program in a
process of its own, by the same library as an app's; older runtimes (`older.py`) do it by libraries
of their own.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner import twin

from etlower import costs, expected, failure, metrics, older
from etlower.arrays import Array
from etlower.dead_slices import Slices, Weak
from etlower.expected import Case
from etlower.outputs import Tolerance
from etlower.progress import Progress
from etlower.runs import Measured, ProgramRun, case_differences


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    options = _parser().parse_args(arguments)
    return failure.run_test(options.label, lambda *places: compare(options, *places))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="etlower.compare", allow_abbrev=False)
    parser.add_argument("--label", required=True)
    for name in ("program", "manifest", "expected"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--program_data", type=Path, action="append", default=[])
    parser.add_argument("--method", action="append", default=[])
    parser.add_argument("--runs_in", default="", help="what computes here, for people")
    parser.add_argument("--executorch_version", default="")
    parser.add_argument("--older", nargs=4, action="append", default=[])
    parser.add_argument("--atol", type=float, default=math.inf)
    parser.add_argument("--rtol", type=float, default=0.0)
    parser.add_argument("--min_sqnr_db", type=float)
    parser.add_argument("--metric", default="")
    parser.add_argument("--min", type=float, default=0.0)
    parser.add_argument("--decode", default="")
    parser.add_argument("--root", action="append", default=[])
    parser.add_argument("--allow_weak_slices", action="store_true")
    costs.add_arguments(parser)
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
    cases = expected.chosen(expected.read(options.expected), options.method)
    tolerance = Tolerance(options.atol, options.rtol, options.min_sqnr_db)
    run = ProgramRun(
        options.program,
        options.program_data,
        options.manifest,
        options.expected,
        options.method,
        work,
        times_calls=options.max_seconds_per_call is not None,
    )
    slices = Slices()
    problems = []
    with progress.stage("compare"):
        outputs, measured = run.run()
        problems += _scores(options, cases, outputs)
        for case, got in zip(cases, outputs, strict=True):
            measured.compare(case, got)
            problems += case_differences(case, got, tolerance)
            if not case.constant:
                slices.add(case.method, got, case.outputs)
        for sentence in _proving_little(cases):
            print(f"{options.label}: {sentence}")
        note = twin.notice(options.program, options.label)
        if note:
            print(note)
        if options.runs_in:
            print(_ran(options, len(cases), measured))
        figures = costs.Figures(run, measured, options.valgrind)
        problems += costs.exceeded(options.label, costs.bounds_of(options), figures)
    if not options.allow_weak_slices:
        problems += map(_weak, slices.weak())
    if options.older:
        with progress.stage("older runtimes"):
            rows = [(options.executorch_version, measured)]
            problems += older.compare(options.older, run, cases, tolerance, rows)
    return problems


def _scores(
    options: argparse.Namespace, cases: Sequence[Case], outputs: Sequence[Sequence[Any]]
) -> list[str]:
    """A sentence, if the mean score of a method's cases is below the least one; by method."""
    if not options.metric:
        return []
    # Behind all that is there: a user's file must not hide ours.
    sys.path += [str(Path(root).absolute()) for root in options.root]
    metric = metrics.of_names(options.metric, options.decode, options.label)
    by_method: dict[str, list[float]] = {}
    for case, got in zip(cases, outputs, strict=True):
        if not case.constant:
            value = metrics.score(metric, got, case.outputs, case.where())
            by_method.setdefault(case.method, []).append(value)
    problems = []
    for method, scores in by_method.items():
        mean = sum(scores) / len(scores)
        which = f'method "{method}": {options.metric}'
        print(f"{which} {mean:.6g}, the least of a case {min(scores):.6g}")
        if mean < options.min:
            problems.append(f"{which} is {mean:.6g}, expected {options.min:g} or more")
    return problems


def _proving_little(cases: Sequence[Case]) -> list[str]:
    """A sentence for each method whose inputs are all zeros, or all ones."""
    sentences = []
    for method in dict.fromkeys(case.method for case in cases if not case.constant):
        inputs = [v for c in cases if c.method == method for v in c.inputs if isinstance(v, Array)]
        floats = [array.doubles() for array in inputs if array.data.dtype.kind == "f"]
        for value, text in ((0, "zeros"), (1, "ones")):
            if floats and all((array == value).all() for array in floats):
                sentences.append(
                    f'the inputs of method "{method}" are all {text}, so agreement proves little. '
                    "Give files in inputs, or in test_inputs of the et_model."
                )
    return sentences


def _ran(options: argparse.Namespace, cases: int, measured: Measured) -> str:
    """A line for people; tests/backends/recorded.py reads it."""
    count = f"{cases} case{'' if cases == 1 else 's'}"
    times = f"load {measured.load_ms:.1f} ms, run {measured.run_ms:.3f} ms"
    times += f" (CPU {measured.run_cpu_ms:.3f} ms)"
    return f"{options.label}: ran in {options.runs_in}: {count}, {times}"


def _weak(part: Weak) -> str:
    return (
        f'method "{part.method}", output {part.output}, {part.text}. Values of very different '
        "ranges may have one scale there: quantize them apart, or leave that layer in float. If "
        "the part does not matter, set allow_weak_slices = True"
    )


if __name__ == "__main__":
    sys.exit(main())
