"""Runs a program in ExecuTorch's runtime and compares it with the eager model.

Contract: `etexport.compare --atol A --rtol R [--min_sqnr_db D] [--manifest JSON] @FLAGS`; 1 on a
difference. With a manifest, program and data files are checked against it before they are loaded.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild import BuildError
from etlink import merge

from etexport import failure, flags, sources
from etexport.inputs import deep_copy
from etexport.progress import Progress


@dataclass(frozen=True)
class Tolerance:
    """How far an output may be from the eager model's.

    Attributes:
      atol: absolute part.
      rtol: part in proportion to the expected value.
      min_sqnr_db: smallest signal-to-quantization-noise ratio, in dB; None: not checked.
    """

    atol: float
    rtol: float
    min_sqnr_db: float | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    parser = argparse.ArgumentParser(prog="etexport.compare", description=__doc__)
    parser.add_argument("--atol", type=float, required=True)
    parser.add_argument("--rtol", type=float, required=True)
    parser.add_argument("--min_sqnr_db", type=float)
    parser.add_argument("--manifest", type=Path)
    options, rest = parser.parse_known_args(arguments)
    tolerance = Tolerance(options.atol, options.rtol, options.min_sqnr_db)
    progress = Progress()
    label = "the test"
    work = Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    try:
        output = f"--output={work / 'none'}"
        request = flags.parse(["lower", output, *flags.expand(rest)])
        label = request.label
        request = checked(request, options.manifest, work)
        problems = compare(request, tolerance, progress, work / "sources")
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
      request: what to compare.
      manifest: the manifest; None: the program is taken as it is.
      work: folder for a file that holds several data files.

    Raises:
      BuildError: a file is missing, damaged, or another one than the program was built with.
    """
    if request.program is None:
        raise BuildError(f"{request.label}: there is no program to test.")
    data = merge.checked(manifest, request.program, request.program_data, work)
    return dataclasses.replace(request, program_data=(data,) if data else ())


def compare(
    request: flags.Request, tolerance: Tolerance, progress: Progress, tree: Path
) -> list[str]:
    """Compares all methods on all of their inputs.

    Returns:
      One sentence per output that differs; empty: all agree.
    """
    sources.install(tree, request.sources, request.roots)
    with progress.stage("load"):
        from etexport import exported, lower, model

        lower.settle()
        spec = model.load_spec(request)
        program = Program(request)
    problems = []
    with progress.stage("compare"):
        for name, method in spec.methods.items():
            module = exported.eager(method.module)
            for number, inputs in enumerate((method.example_inputs, *method.test_inputs)):
                where = f'method "{name}", input {number}'
                problems += _compare_once(program, name, module, inputs, tolerance, where)
        for name, expected in spec.constant_methods.items():
            problems += _compare_constant(program, name, expected)
    return problems


class Program:
    """A program in ExecuTorch's Python runtime, loaded anew for every call.

    A model with a state (a KV cache) must meet every input as the eager model does: fresh.
    """

    def __init__(self, request: flags.Request) -> None:
        if request.program is None:
            raise BuildError(f"{request.label}: there is no program to test.")
        self._path = request.program
        self._data = request.program_data

    def call(self, method: str, inputs: Sequence[Any]) -> list[Any]:
        """Runs a method.

        Returns:
          Its outputs.

        Raises:
          BuildError: the runtime can't load the program or lacks the method.
        """
        from executorch.runtime import Runtime, Verification

        try:
            program = Runtime.get().load_program(
                self._path,
                verification=Verification.Minimal,
                data_path=self._data[0] if self._data else None,
            )
            loaded = program.load_method(method)
        except RuntimeError as error:
            raise BuildError(
                f'The runtime cannot load the method "{method}" of {self._path.name}: {error}',
                "Does this runtime have the program's backends and operators?",
            ) from error
        if loaded is None:
            raise BuildError(f'{self._path.name} has no method "{method}".')
        flat = leaves(tuple(inputs))
        # The runtime's outputs live in its memory, which goes with the program.
        return deep_copy(list(loaded.execute(flat)))


def leaves(value: Any) -> list[Any]:
    """The tensors and numbers of a nested value, in the order of a program's inputs or outputs."""
    import torch

    return torch.utils._pytree.tree_leaves(value)


def _compare_once(
    program: Program,
    method: str,
    module: Any,
    inputs: Sequence[Any],
    tolerance: Tolerance,
    where: str,
) -> list[str]:
    import torch

    with torch.no_grad():
        expected = leaves(deep_copy(module)(*deep_copy(tuple(inputs))))
    got = program.call(method, deep_copy(tuple(inputs)))
    if len(got) != len(expected):
        return [f"{where}: got {len(got)} outputs, the eager model gives {len(expected)}"]
    pairs = enumerate(zip(got, expected, strict=True))
    problems = (difference(g, w, tolerance, f"{where}, output {n}") for n, (g, w) in pairs)
    return [problem for problem in problems if problem]


def _compare_constant(program: Program, name: str, expected: Any) -> Iterable[str]:
    got = program.call(name, ())
    flat = leaves(expected)
    import torch

    same = len(got) == len(flat) and all(
        torch.equal(g, w) if isinstance(w, torch.Tensor) else _close(g, w)
        for g, w in zip(got, flat, strict=True)
    )
    return [] if same else [f'constant method "{name}": got {got}, expected {flat}']


def _close(got: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        return math.isclose(got, expected, rel_tol=1e-6)
    return got == expected


def difference(got: Any, expected: Any, tolerance: Tolerance, where: str) -> str:
    """Says how two outputs differ.

    Args:
      got: of the program: tensor or number.
      expected: of the eager model.
      tolerance: what is allowed.
      where: for the message.

    Returns:
      A sentence with the largest difference and its position; empty: they agree.
    """
    import torch

    if not isinstance(expected, torch.Tensor):
        return "" if _close(got, expected) else f"{where}: got {got}, expected {expected}"
    if not isinstance(got, torch.Tensor):
        return f"{where}: got a {type(got).__name__}, expected a tensor"
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return (
            f"{where}: got {tuple(got.shape)} {got.dtype}, expected {tuple(expected.shape)} "
            f"{expected.dtype}"
        )
    if not expected.numel():
        return ""
    left, right = got.double(), expected.double()
    distance = _distance(left, right)
    bad = distance > tolerance.atol + tolerance.rtol * right.abs().nan_to_num()
    sqnr = _sqnr_db(right, distance)
    print(f"{where}: largest difference {distance.max():.6g}, SQNR {sqnr:.1f} dB")
    parts = []
    if bad.any():
        position = tuple(int(i) for i in torch.unravel_index(distance.argmax(), distance.shape))
        parts.append(
            f"the largest difference is {distance.max():.6g} at {list(position)}: got "
            f"{float(left[position]):.6g}, expected {float(right[position]):.6g}; "
            f"{int(bad.sum())} of {bad.numel()} elements are outside of "
            f"atol = {tolerance.atol:g}, rtol = {tolerance.rtol:g}"
        )
    if tolerance.min_sqnr_db is not None and sqnr < tolerance.min_sqnr_db:
        parts.append(f"the SQNR is {sqnr:.1f} dB, expected {tolerance.min_sqnr_db:g} dB")
    return f"{where}: {'; '.join(parts)}" if parts else ""


def sqnr_db(got: Any, expected: Any) -> float:
    """Signal-to-quantization-noise ratio in dB of two tensors of one shape; infinite: no noise."""
    left, right = got.double(), expected.double()
    return _sqnr_db(right, _distance(left, right))


def _distance(left: Any, right: Any) -> Any:
    """How far apart elements are; infinitely, where only one side is NaN."""
    import torch

    both_nan = left.isnan() & right.isnan()
    distance = torch.where(both_nan | (left == right), 0.0, (left - right).abs())
    return torch.where(distance.isnan(), math.inf, distance)


def _sqnr_db(expected: Any, distance: Any) -> float:
    noise = float((distance**2).sum())
    # Infinities that agree are no signal to measure against.
    signal = float((expected.nan_to_num(posinf=0.0, neginf=0.0) ** 2).sum())
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal and math.isfinite(noise) else -math.inf


if __name__ == "__main__":
    sys.exit(main())
