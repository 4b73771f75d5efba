"""Runs a program in ExecuTorch's runtime and compares it with what the eager model gives.

Contract: `etexport.compare --label L --program PTE [--program_data PTD]… --manifest JSON
--expected FILE [--method M]… [--runner FILE] --atol A --rtol R [--min_sqnr_db D]`; 1 on a
difference. Program and data files are checked against the manifest before they are loaded.

It imports no torch, which alone takes seconds: people run tests far more often than they lower.
The eager model's outputs come from EtExpect's file (`expected.py`). The C++ runner runs each case
in a process of its own, so that a state such as a KV cache is fresh, and a crash is an error like
others. What the runner lacks (an operator, a backend, a value that its files have no form for)
runs in the wheel's Python runtime (`python_runtime.py`), whose process imports torch. The choice
follows from the program's tables and from what the runner has, never from an attempt that failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etlink import manifest, merge, process, pte, tables

from etexport import arrays, expected, failure
from etexport.arrays import Array
from etexport.expected import Case
from etexport.outputs import Tolerance, constant_difference, difference
from etexport.progress import Progress


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
    parser = argparse.ArgumentParser(prog="etexport.compare", allow_abbrev=False)
    parser.add_argument("--label", required=True)
    for name in ("program", "manifest", "expected"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--program_data", type=Path, action="append", default=[])
    parser.add_argument("--method", action="append", default=[])
    parser.add_argument("--runner", type=Path)
    for name in ("atol", "rtol"):
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--min_sqnr_db", type=float)
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
    problems = []
    with progress.stage("compare"):
        native = options.runner and _runs(options.runner, options.program, cases)
        run = _in_runner if native else _in_python
        for case, got in zip(cases, run(options, data, cases, work), strict=True):
            problems += _compare_case(case, got, tolerance)
    return problems


def _compare_case(case: Case, got: Sequence[Any], tolerance: Tolerance) -> list[str]:
    if case.constant:
        problem = constant_difference(got, case.outputs, f'constant method "{case.method}"')
        return [problem] if problem else []
    where = f'method "{case.method}", input {case.number}'
    if len(got) != len(case.outputs):
        return [f"{where}: got {len(got)} outputs, the eager model gives {len(case.outputs)}"]
    pairs = enumerate(zip(got, case.outputs, strict=True))
    problems = (difference(g, e, tolerance, f"{where}, output {n}") for n, (g, e) in pairs)
    return [problem for problem in problems if problem]


def _runs(runner: Path, program: Path, cases: Sequence[Case]) -> bool:
    """Whether the runner has all that a program needs, and its files a form for all values."""
    if not all(case.has_form() for case in cases):
        return False
    listed = json.loads(_run_runner(runner, ["--runtime_info"]))
    methods = list(tables.describe_methods(pte.read(program).program))
    return all(
        set(method[kind]) <= set(listed[kind])
        for method in methods
        for kind in ("backends", "operators")
    )


def _in_runner(
    options: argparse.Namespace, data: Sequence[Path], cases: Sequence[Case], work: Path
) -> Iterator[list[Any]]:
    """The outputs of each case, by the C++ runner."""
    loaded = [word for path in data for word in ("--data", str(path))]
    for number, case in enumerate(cases):
        folder = work / str(number)
        words = ["--program", str(options.program), *loaded, "--method", case.method]
        for name in case.input_names():
            words += ["--input", f"{options.expected}:{name}"]
        words += ["--output", str(folder), "--output_format", "safetensors", "--json"]
        report = json.loads(_run_runner(options.runner, words))
        yield _outputs(report["programs"][0]["output_values"], folder)


def _outputs(values: Sequence[dict[str, Any]], folder: Path) -> list[Any]:
    """What the runner wrote: a number stands in its files as a tensor without dimensions."""
    by_name, _ = arrays.read(folder / "outputs.safetensors")
    outputs: list[Array | Any] = []
    for value in values:
        array = by_name[value["name"]]
        outputs.append(array if value["kind"] == "tensor" else array.item())
    return outputs


def _run_runner(runner: Path, words: Sequence[str]) -> str:
    """What the runner prints.

    Raises:
      BuildError: it ended with an error, or was killed.
    """
    done = subprocess.run(
        [runner.absolute(), *words], capture_output=True, text=True, errors="replace", check=False
    )
    if not done.returncode:
        return done.stdout
    # The runner itself says what its runtime's crashes are.
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    if lines:
        raise BuildError(lines[-1].removeprefix("error: "))
    end = f"exit code {done.returncode}"
    if done.returncode < 0:
        end = signal.Signals(-done.returncode).name
    raise BuildError(
        f"ExecuTorch's runtime ended with {end} and without a message.",
        "The machine may be out of memory: run fewer jobs at once (--jobs=1).",
    )


def _in_python(
    options: argparse.Namespace, data: Sequence[Path], cases: Sequence[Case], work: Path
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
    process.ask("etexport.python_runtime", request, work, options.program.name)
    for case in expected.read(output):
        yield case.outputs


if __name__ == "__main__":
    sys.exit(main())
