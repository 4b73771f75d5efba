"""Runs a program in ExecuTorch's runtime and compares it with the eager model.

Contract: `etexport.compare --atol A --rtol R [--min_sqnr_db D] [--manifest JSON] @FLAGS`; 1 on a
difference. With a manifest, program and data files are checked against it before they are loaded.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etbuild import BuildError
from etlink import merge, runtime

from etexport import failure, flags, sources
from etexport.inputs import deep_copy
from etexport.progress import Progress

if TYPE_CHECKING:
    # Imports torch, which belongs to the stage "load".
    from etexport.outputs import Tolerance


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    parser = argparse.ArgumentParser(prog="etexport.compare", description=__doc__)
    parser.add_argument("--atol", type=float, required=True)
    parser.add_argument("--rtol", type=float, required=True)
    parser.add_argument("--min_sqnr_db", type=float)
    parser.add_argument("--manifest", type=Path)
    options, rest = parser.parse_known_args(arguments)
    progress = Progress()
    label = "the test"
    work = Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    try:
        output = f"--output={work / 'none'}"
        request = flags.parse(["lower", output, *flags.expand(rest)])
        label = request.label
        request = checked(request, options.manifest, work)
        problems = compare(request, options, progress, work / "sources")
    except Exception as error:
        sys.stderr.write(failure.message(error, label, progress, work / "sources", None))
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for problem in problems:
        print(f"FAILED: {label}: {problem}", file=sys.stderr)
    return 1 if problems else 0


def checked(request: flags.Request, manifest: Path | None, work: Path) -> flags.Request:
    """The request with the data files that the program's manifest asks for, as one file.

    Args:
      request: names the program and its data files.
      manifest: the program's; None: the program is taken as it is.
      work: folder for a file that holds several data files.

    Raises:
      BuildError: a file is missing, damaged, or another one than the program was built with.
    """
    data = merge.checked(manifest, program_of(request), request.program_data, work)
    return dataclasses.replace(request, program_data=(data,) if data else ())


def compare(
    request: flags.Request, options: argparse.Namespace, progress: Progress, tree: Path
) -> list[str]:
    """Compares all methods on all of their inputs.

    Args:
      request: the program, with one data file at most, and its model.
      options: atol, rtol and min_sqnr_db.
      progress: told of the stages.
      tree: a folder for the model's sources.

    Returns:
      One sentence per output that differs; empty: all agree.
    """
    sources.install(tree, request.sources, request.roots)
    with progress.stage("load"):
        from etexport import exported, lower, model
        from etexport.outputs import Tolerance

        lower.settle()
        spec = model.load_spec(request)
    tolerance = Tolerance(options.atol, options.rtol, options.min_sqnr_db)
    problems = []
    with progress.stage("compare"):
        for name, method in spec.methods.items():
            module = exported.eager(method.module)
            for number, inputs in enumerate((method.example_inputs, *method.test_inputs)):
                where = f'method "{name}", input {number}'
                problems += _compare_once(request, name, module, inputs, tolerance, where)
        for name, value in spec.constant_methods.items():
            problems += _compare_constant(request, name, value)
    return problems


def call(request: flags.Request, method: str, inputs: Sequence[Any]) -> list[Any]:
    """Runs a method of a program that is loaded anew.

    A model with a state (a KV cache) must meet every input as the eager model does: fresh.

    Args:
      request: names the program and its data file.
      method: its name.
      inputs: positional arguments, nested as the eager model takes them.

    Returns:
      Its outputs, flat.

    Raises:
      BuildError: the runtime cannot load the program, or lacks the method.
    """
    from etexport.outputs import leaves

    data = request.program_data[0] if request.program_data else None
    program = runtime.Program(program_of(request), data)
    # The runtime's outputs are in its memory, which goes with the program.
    return deep_copy(program.method(method)(leaves(tuple(inputs))))


def program_of(request: flags.Request) -> Path:
    """The .pte file of a request.

    Raises:
      BuildError: it has none.
    """
    if request.program is None:
        raise BuildError(f"{request.label}: there is no program to run.")
    return request.program


def _compare_once(
    request: flags.Request,
    method: str,
    module: Any,
    inputs: Sequence[Any],
    tolerance: Tolerance,
    where: str,
) -> list[str]:
    from etexport import exported
    from etexport.outputs import difference

    expected = exported.eager_outputs(module, inputs)
    got = call(request, method, deep_copy(tuple(inputs)))
    if len(got) != len(expected):
        return [f"{where}: got {len(got)} outputs, the eager model gives {len(expected)}"]
    pairs = enumerate(zip(got, expected, strict=True))
    problems = (difference(g, e, tolerance, f"{where}, output {n}") for n, (g, e) in pairs)
    return [problem for problem in problems if problem]


def _compare_constant(request: flags.Request, name: str, value: Any) -> list[str]:
    import torch

    from etexport.outputs import close, leaves

    got, expected = call(request, name, ()), leaves(value)
    same = len(got) == len(expected) and all(
        torch.equal(g, e) if isinstance(e, torch.Tensor) else close(g, e)
        for g, e in zip(got, expected, strict=True)
    )
    return [] if same else [f'constant method "{name}": got {got}, expected {expected}']


if __name__ == "__main__":
    sys.exit(main())
