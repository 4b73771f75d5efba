"""Runs a program's cases in the C++ runner, a process for each; measures and compares them.

A fresh process has a fresh state (a KV cache), and its crash is an error like others.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etlink import pte, tables

from etlower import arrays
from etlower.arrays import Array
from etlower.expected import Case
from etlower.outputs import Tolerance, constant_difference, difference, largest_difference


@dataclass(frozen=True)
class ProgramRun:
    """The files of a run.

    Attributes:
      program: the .pte file.
      data: the .ptd files that it loads.
      expected: file of the cases.
      work: folder for outputs.
    """

    program: Path
    data: Sequence[Path]
    expected: Path
    work: Path


@dataclass
class Measured:
    """Figures from running a program.

    Attributes:
      largest: largest difference to the eager model's outputs.
      load_ms: longest time to load a method, in ms; None: not measured.
      peak_bytes: largest peak of what loading and running added to a process; None: not measured.
    """

    largest: float = 0.0
    load_ms: float | None = None
    peak_bytes: int | None = None

    def compare(self, case: Case, got: Sequence[Any]) -> None:
        """Adds the differences of a case."""
        for output, wanted in zip(got, case.outputs, strict=False):
            self.largest = max(self.largest, largest_difference(output, wanted))

    def add(self, report: Mapping[str, Any]) -> None:
        """Adds what the runner reports."""
        load_ms = max(program["load_ms"] for program in report["programs"])
        peak = report["peak_bytes"] - report["memory_at_start"]["resident_bytes"]
        self.load_ms = max(self.load_ms or 0.0, load_ms)
        self.peak_bytes = max(self.peak_bytes or 0, peak)


@dataclass(frozen=True)
class Runner:
    """A C++ runner.

    Attributes:
      path: the executable.
      environment: variables that it gets in addition.
    """

    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def info(self) -> dict[str, Any]:
        """Version, operators and backends of its runtime."""
        info: dict[str, Any] = json.loads(self._start(["--runtime_info"]))
        return info

    def missing(self, program: Path) -> list[str]:
        """Operators and backends that a program uses and the runner lacks."""
        listed = self.info()
        methods = list(tables.describe_methods(pte.read(program).program))
        return sorted(
            name
            for kind in ("backends", "operators")
            for name in {n for method in methods for n in method[kind]} - set(listed[kind])
        )

    def run(
        self, run: ProgramRun, cases: Sequence[Case], measured: Measured
    ) -> Iterator[list[Any]]:
        """The outputs of each case.

        Raises:
          BuildError: the runtime cannot run the program, or crashed.
        """
        loaded = [word for path in run.data for word in ("--data", str(path))]
        for number, case in enumerate(cases):
            folder = run.work / str(number)
            words = ["--program", str(run.program), *loaded, "--method", case.method]
            for name in case.input_names():
                words += ["--input", f"{run.expected}:{name}"]
            words += ["--repeat", str(case.calls)]
            words += ["--output", str(folder), "--output_format", "safetensors", "--json"]
            report = json.loads(self._start(words))
            measured.add(report)
            yield _outputs(report["programs"][0]["output_values"], folder)

    def _start(self, words: Sequence[str]) -> str:
        """Runs the runner and returns what it prints.

        Raises:
          BuildError: it ended with an error, or was killed.
        """
        done = subprocess.run(
            [self.path.absolute(), *words],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
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


def cases_have_forms(cases: Sequence[Case]) -> bool:
    """Tells whether the runner's files have a form for all values."""
    return all(case.has_form() for case in cases)


def case_differences(case: Case, got: Sequence[Any], tolerance: Tolerance) -> list[str]:
    """Says how the outputs of a case differ: a sentence per output that does."""
    if case.constant:
        problem = constant_difference(got, case.outputs, f'constant method "{case.method}"')
        return [problem] if problem else []
    where = case.where()
    if len(got) != len(case.outputs):
        return [f"{where}: got {len(got)} outputs, the eager model gives {len(case.outputs)}"]
    pairs = enumerate(zip(got, case.outputs, strict=True))
    problems = (difference(g, e, tolerance, f"{where}, output {n}") for n, (g, e) in pairs)
    return [problem for problem in problems if problem]


def _outputs(values: Sequence[dict[str, Any]], folder: Path) -> list[Any]:
    """Reads the runner's outputs: a number stands in its files as a tensor without dimensions."""
    by_name, _ = arrays.read(folder / "outputs.safetensors")
    outputs: list[Array | Any] = []
    for value in values:
        array = by_name[value["name"]]
        outputs.append(array if value["kind"] == "tensor" else array.item())
    return outputs
