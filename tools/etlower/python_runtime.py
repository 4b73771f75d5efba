"""Runs a program on test cases in ExecuTorch's Python runtime, in a process of its own.

For what the C++ runner does not run: see `compare.py`, which starts it with `etlink.process.ask`.

Contract: `python -m etlower.python_runtime REQUEST.json ANSWER.json`. The request has `program`,
`data` (a .ptd file, or empty), `expected`, the file of cases, `methods`, those that run (empty:
all), and `output`: a file of cases with the program's outputs, in the same order.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etlink import runtime
from etlink.process import serve

from etlower import arrays, expected
from etlower.arrays import Array


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Runs the cases of a request, and writes the outputs."""
    program = Path(request["program"])
    data = Path(request["data"]) if request["data"] else None
    cases = expected.chosen(expected.read(Path(request["expected"])), request["methods"])
    ran = [
        dataclasses.replace(case, inputs=(), outputs=tuple(_outputs(program, data, case)))
        for case in cases
    ]
    expected.write(Path(request["output"]), ran)
    return {"cases": len(ran)}


def _outputs(program: Path, data: Path | None, case: expected.Case) -> Sequence[Any]:
    inputs = [arrays.to_torch(v) if isinstance(v, Array) else v for v in case.inputs]
    outputs = runtime.call(program, data, case.method, inputs, times=case.calls)
    return expected.plain(outputs, case.where())


if __name__ == "__main__":
    sys.exit(serve(answer))
