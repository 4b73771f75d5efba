"""Runs a program on test cases, in a process of its own whose crash is an error like others.

Contract: `python -m etlower.cases REQUEST.json ANSWER.json`, which `process.ask` starts. The
request has `program`, `data` (paths), `manifest` (empty: nothing is checked), `name`, `expected`,
the file of cases, `methods`, those that run (empty: all), `library`, that of another runtime, and
`version` of that (both may be empty), `times_calls`, and `output`: a file of cases with the
program's outputs, in the same order. The answer has `load_ms`, the longest time to load a method,
`run_ms`, the time of all runs, `run_cpu_ms`, the processor time of these, `peak_bytes`, the most
that loading and running added to the process, and `rss_bytes`, the most that it had. With
`times_calls`, it also has `call_seconds`, of the slowest case the fastest of three calls, and
`slowest_call`, that case.

A request with `asks` "missing" has only `program` beside it; the answer has `missing`, backends and
operators that the runtime lacks.

Each case finds the program as it was built: what it keeps between calls has its initial values.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from etbuild.errors import BuildError
from etlink import pte
from etlink.process import serve
from runner import runtime

from etlower import expected
from etlower.arrays import Array
from etlower.progress import cpu_seconds, peak_memory


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Runs the cases of a request, and writes the outputs; or says what a program lacks here."""
    if request.get("asks") == "missing":
        return {"missing": runtime.lacks(pte.read(Path(request["program"])))}
    library = Path(request["library"]) if request["library"] else None
    program, name = Path(request["program"]), request["name"]
    version = runtime.info(library)["version"]
    if request["version"] not in ("", version):
        raise BuildError(f"version of the runtime: got {version}, expected {request['version']}.")
    runtime.check_needs(pte.read(program), name, library)
    cases = expected.chosen(expected.read(Path(request["expected"])), request["methods"])
    data = [Path(path) for path in request["data"]]
    manifest = Path(request["manifest"]) if request["manifest"] else None
    before = peak_memory()
    load_seconds, run_seconds, run_cpu_seconds, outputs = 0.0, 0.0, 0.0, []
    with runtime.Program(program, data, manifest, name=name, library=library) as opened:
        for case in cases:
            inputs = [input_of(value, case.where()) for value in case.inputs]
            begin = time.perf_counter()
            opened.reset()
            opened.load(case.method)
            load_seconds = max(load_seconds, time.perf_counter() - begin)
            for _ in range(case.calls):
                begin = cpu_seconds()
                got = opened.run(case.method, inputs)
                run_cpu_seconds += cpu_seconds() - begin
                run_seconds += opened.last_run_seconds
            values = tuple(map(output_of, got, opened.last_run.outputs))
            outputs.append(dataclasses.replace(case, inputs=(), outputs=values))
        # All that follows is no part of a run.
        peak = peak_memory()
        slowest = _slowest(opened, cases) if request["times_calls"] else {}
    expected.write(Path(request["output"]), outputs)
    return {
        **slowest,
        "load_ms": 1000 * load_seconds,
        "run_ms": 1000 * run_seconds,
        "run_cpu_ms": 1000 * run_cpu_seconds,
        "peak_bytes": max(0, peak - before),
        "rss_bytes": peak,
    }


def _slowest(opened: runtime.Program, cases: Sequence[expected.Case]) -> dict[str, Any]:
    """Times each input of each method three times in a row, which those that keep state allow."""
    seconds: dict[str, float] = {}
    for case in cases:
        if case.constant or case.calls > 1:
            continue
        inputs = [input_of(value, case.where()) for value in case.inputs]
        opened.reset()
        opened.load(case.method)
        times = []
        for _ in range(3):
            opened.run(case.method, inputs)
            times.append(opened.last_run_seconds)
        seconds[case.where()] = min(times)
    where = max(seconds, key=seconds.__getitem__, default="")
    return {"call_seconds": seconds.get(where, 0.0), "slowest_call": where}


def input_of(value: Any, where: str) -> np.ndarray:
    """An input as the C interface takes it.

    Raises:
      BuildError: it is a text.
    """
    if isinstance(value, Array):
        return value.data
    if isinstance(value, str):
        raise BuildError(
            f"{where}: got the text {value!r} as an input, which no app can give.",
            "Give the method tensors and numbers only.",
        )
    return np.empty(0, "uint8") if value is None else np.array(value)


def output_of(value: np.ndarray, described: Any) -> Any:
    """An output of the C interface as a case has it: `Array`, number, text or None."""
    if described.kind == "tensor":
        return Array(described.dtype, value)
    if described.kind == "string":
        return value.tobytes().decode("utf-8", "replace")
    return None if described.kind == "none" else value.item()


def outputs_of(program: runtime.Program, method: str, inputs: Sequence[Any]) -> list[Any]:
    """Runs a method on `Array`s and numbers; returns the same."""
    given = [input_of(value, f'method "{method}"') for value in inputs]
    got = program.run(method, given)
    return [output_of(v, d) for v, d in zip(got, program.last_run.outputs, strict=True)]


if __name__ == "__main__":
    sys.exit(serve(answer))
