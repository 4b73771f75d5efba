"""Bundled programs: a .pte with inputs and the outputs that the eager model gives for them."""

from __future__ import annotations

from typing import Any

import torch
from etbuild import BuildError

from etexport import exported
from etexport.flags import Request
from etexport.inputs import deep_copy


def write(request: Request, spec: Any) -> None:
    """Writes a .bpte (upstream's BundledProgram).

    Raises:
      BuildError: the program's weights are outside of it: the format has one file.
    """
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import (
        serialize_from_bundled_program_to_flatbuffer,
    )

    if request.program_data or request.program is None:
        raise BuildError(
            f"{request.label}: a bundled program holds one .pte, and this program's weights are in "
            "a .ptd.",
            'Bundle a program with weights = "embedded" and without shared_data.',
        )
    suites = []
    for name, method in spec.methods.items():
        eager = exported.eager(method.module)
        cases = []
        for inputs in (method.example_inputs, *method.test_inputs):
            with torch.no_grad():
                # A copy: a model with a state must meet every case as the program does, fresh.
                outputs = deep_copy(eager)(*deep_copy(inputs))
            flat = torch.utils._pytree.tree_leaves(outputs)
            cases.append(MethodTestCase(inputs=list(inputs), expected_outputs=flat))
        suites.append(MethodTestSuite(method_name=name, test_cases=cases))
    bundled = BundledProgram(None, suites, str(request.program))
    request.output.write_bytes(serialize_from_bundled_program_to_flatbuffer(bundled))
