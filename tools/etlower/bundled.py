"""Bundled programs: a .pte with inputs and the outputs that the eager model gives for them."""

from __future__ import annotations

from typing import Any

from etbuild import BuildError

from etlower import arrays, expected
from etlower.arrays import Array
from etlower.flags import Request


def write(request: Request) -> None:
    """Writes a .bpte (upstream's BundledProgram) of a program and EtExpect's file.

    Raises:
      BuildError: the request has no program, or no file of what the eager model gives; a value is
        of a kind that the format lacks.
    """
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import (
        serialize_from_bundled_program_to_flatbuffer,
    )

    if request.program is None or request.expected is None:
        raise BuildError(f"{request.label}: there is no program to bundle with test cases.")
    cases: dict[str, list[Any]] = {}
    for case in expected.chosen(expected.read(request.expected), request.methods):
        # A bundle has no form for several calls in a row.
        if case.constant or case.calls > 1:
            continue
        inputs, outputs = _values(case.inputs), _values(case.outputs)
        of_method = cases.setdefault(case.method, [])
        of_method.append(MethodTestCase(inputs=inputs, expected_outputs=outputs))
    suites = [MethodTestSuite(method_name=n, test_cases=c) for n, c in cases.items()]
    bundled = BundledProgram(None, suites, str(request.program))
    request.output.write_bytes(serialize_from_bundled_program_to_flatbuffer(bundled))


def _values(values: tuple[Any, ...]) -> list[Any]:
    return [arrays.to_torch(v) if isinstance(v, Array) else v for v in values]
