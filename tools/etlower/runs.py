"""Runs of a program's test cases on a runtime: what they gave, took, and how they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etlink import process

from etlower import expected
from etlower.expected import Case
from etlower.outputs import Tolerance, constant_difference, differences, largest_difference


@dataclass
class Measured:
    """Measurements of a program's cases.

    Attributes:
      load_ms: longest time to load a method, in ms.
      peak_bytes: what loading and running added to a process at most.
      largest: largest difference to the eager model's outputs.
      run_ms: time of all runs, in ms.
      run_cpu_ms: processor time of all runs, in ms.
      rss_bytes: peak of the process's resident memory: with Python, the runtime and all cases.
      call_seconds: of the slowest case, the fastest of three calls in a row.
      slowest_call: that case, for people.
    """

    load_ms: float = 0.0
    peak_bytes: int = 0
    largest: float = 0.0
    run_ms: float = 0.0
    run_cpu_ms: float = 0.0
    rss_bytes: int = 0
    call_seconds: float = 0.0
    slowest_call: str = ""

    def compare(self, case: Case, got: Sequence[Any]) -> None:
        """Adds the differences of a case."""
        for output, wanted in zip(got, case.outputs, strict=False):
            self.largest = max(self.largest, largest_difference(output, wanted))


@dataclass(frozen=True)
class ProgramRun:
    """The files of a run.

    Attributes:
      program: the .pte file.
      data: the .ptd files that it loads.
      manifest: of the program; None: there is none to check it against.
      expected: file of the cases.
      methods: those whose cases run, and constant ones; empty: all.
      work: folder for outputs.
      times_calls: whether each case is called three times, for `call_seconds`.
    """

    program: Path
    data: Sequence[Path]
    manifest: Path | None
    expected: Path
    methods: Sequence[str]
    work: Path
    times_calls: bool = False

    def request(self) -> dict[str, Any]:
        """Returns the part that `cases.py` and `instructions.py` read alike."""
        return {
            "program": self.program.absolute(),
            "data": [path.absolute() for path in self.data],
            "name": self.program.name,
            "expected": self.expected.absolute(),
            "methods": self.methods,
        }

    def run(
        self,
        library: Path | None = None,
        version: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> tuple[list[Sequence[Any]], Measured]:
        """Runs the cases in a process of its own.

        Args:
          library: of another runtime; None: this machine's.
          version: of that runtime, which is checked; empty: any.
          environment: variables that the process gets in addition.

        Returns:
          The outputs of each case, and measurements.

        Raises:
          BuildError: a file is missing, damaged or another one than the program was built with; the
            runtime cannot run the program, or crashed.
        """
        output = self.work / f"outputs{version}.safetensors"
        request = {
            **self.request(),
            "manifest": self.manifest.absolute() if self.manifest else "",
            "library": library.absolute() if library else "",
            "version": version,
            "output": output,
            "times_calls": self.times_calls,
        }
        answer = process.ask("etlower.cases", request, self.work, self.program.name, environment)
        outputs = [case.outputs for case in expected.read(output)]
        return outputs, Measured(**answer)


def case_differences(case: Case, got: Sequence[Any], tolerance: Tolerance) -> list[str]:
    """Says how the outputs of a case differ: a sentence per output that does."""
    if case.constant:
        problem = constant_difference(got, case.outputs, f'constant method "{case.method}"')
        return [problem] if problem else []
    return differences(got, case.outputs, tolerance, case.where())
