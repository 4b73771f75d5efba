"""Runs a program in a process of its own, whose crash is an error like others.

Contract: `python -m etcli.execution REQUEST.json ANSWER.json`, started by `process.ask`; `running`
and `files.inspection` write the requests.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from etbuild.errors import BuildError
from etlink import pte
from etlink.process import serve
from etlower import arrays
from etlower.arrays import Array
from etlower.cases import outputs_of
from etlower.outputs import Tolerance, differences
from runner import runtime

# First elements of a tensor that the answer has.
_SHOWN = 8


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Does what a request asks for: "command" is "missing" or "run"."""
    return {"missing": runtime.missing, "run": _run}[request["command"]](request)


def _run(request: Mapping[str, Any]) -> dict[str, Any]:
    path, name = Path(request["program"]), request["name"]
    runtime.check_needs(pte.read(path), name)
    data = [Path(file) for file in request["data"]]
    manifest = Path(request["manifest"]) if request["manifest"] else None
    begin = time.perf_counter()
    with runtime.Program(path, data, manifest, name=name) as program:
        load_seconds = time.perf_counter() - begin
        cases = request["cases"] or [{"method": request["method"], "inputs": None}]
        runs = [_run_case(program, case, request) for case in cases]
    if request["output"]:
        _write(Path(request["output"]), runs[0]["values"])
    for run in runs:
        del run["values"]
    return {"load_seconds": load_seconds, "runs": runs}


def _run_case(
    program: runtime.Program, case: Mapping[str, Any], request: Mapping[str, Any]
) -> dict[str, Any]:
    from etcli import inputs

    method = case["method"]
    if case["inputs"] is None:
        files = [Path(p) for p in request["inputs"]]
        described = program.describe(method)
        values = inputs.of_method(described, files, request["fill"], request["seed"])
    else:
        values = [_from_bundle(v) for v in case["inputs"]]
    program.load(method)
    seconds = []
    for _ in range(request["repeat"]):
        outputs = outputs_of(program, method, values)
        seconds.append(program.last_run_seconds)
    run = {
        "method": method,
        "seconds": seconds,
        "inputs": [_described(v) for v in values],
        "outputs": [_described(v) for v in outputs],
        "values": outputs,
    }
    if case["inputs"] is not None:
        expected = [_from_bundle(value) for value in case["outputs"]]
        tolerance = Tolerance(request["atol"], request["rtol"])
        run["problems"] = differences(outputs, expected, tolerance)
    return run


def _from_bundle(value: Mapping[str, Any]) -> Any:
    data = np.frombuffer(bytes.fromhex(value["data"]), arrays.held(value["dtype"]))
    if value["is_number"]:
        return data.item()
    order = value["order"]
    laid_out = data.reshape([value["shape"][n] for n in order])
    rows = laid_out.transpose([order.index(n) for n in range(len(order))])
    return Array(value["dtype"], np.ascontiguousarray(rows).reshape(value["shape"]))


def _described(value: Any) -> dict[str, Any]:
    """A value for people: type and shape, range, and first elements."""
    if not isinstance(value, Array):
        return {"dtype": type(value).__name__, "shape": [], "first": [value]}
    numbers = value.doubles().reshape(-1)
    exact = value.dtype == "bool" or value.data.dtype.kind in "iu" and value.dtype != "bfloat16"
    first = value.data.reshape(-1)[:_SHOWN].tolist() if exact else numbers[:_SHOWN].tolist()
    if value.dtype == "bool":
        first = [str(v) for v in first]
    described: dict[str, Any] = {
        "dtype": value.dtype,
        "shape": list(value.shape),
        "first": [float(f"{v:.6g}") if isinstance(v, float) else v for v in first],
    }
    if numbers.size:
        described |= {
            "least": _finite(numbers.min()),
            "largest": _finite(numbers.max()),
            "mean": _finite(numbers.mean()),
        }
    return described


def _finite(number: Any) -> float | str:
    value = float(number)
    return float(f"{value:.6g}") if math.isfinite(value) else str(value)


def _write(path: Path, outputs: Sequence[Any]) -> None:
    tensors = {str(n): value for n, value in enumerate(outputs) if isinstance(value, Array)}
    part = path.with_name(f".{path.name}.part")
    try:
        arrays.write(part, tensors, "")
        part.replace(path)
    except OSError as error:
        raise BuildError(f"{path} cannot be written: {error}.", "Does its folder exist?") from error
    finally:
        part.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(serve(answer))
