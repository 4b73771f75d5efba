"""Lowers nets with a recipe, runs them in the runtime, and compares with the eager model.

Nets go through a lowering together, beside each other in one graph, which is ten times as fast as
one by one. If anything is not equal, each is tried alone, and what is said is of it alone.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from etfast import path as fast_path
from etlink import pte
from etlower import arrays, stages
from etlower.cases import outputs_of
from etlower.model import as_in_a_program
from etlower.progress import Progress
from runner import runtime

from tests.operators import kernels, reference
from tests.operators.nets import Joint, Net, tensors
from tests.operators.outcome import BUILD, DIFFERS, EQUAL, RUN, Outcome

# Of the runtime's message on a program that needs more than it has.
_LACKING = re.compile(r"on this machine lacks (.*)\.$", re.MULTILINE)


class _Failed(Exception):
    """Failure of a program as a whole."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = Outcome(kind, reason)


def try_together(
    nets: Sequence[Net], make_recipe: Callable[[], Any], precision: torch.dtype | None = None
) -> list[Outcome | None]:
    """Tries nets in one program.

    Args:
      nets: what is tried.
      make_recipe: makes upstream's ExportRecipe, for each lowering another.
      precision: what the recipe's backend computes 32-bit floats in; None: in these.

    Returns:
      The outcome of each; None: it has to be tried with fewer others, which a single net never has.
    """
    try:
        outcomes = _try(nets, make_recipe, precision)
    except _Failed as failed:
        return [failed.outcome if len(nets) == 1 else None] * len(nets)
    # What is wrong beside others may be the others' fault.
    sure = (EQUAL, BUILD) if len(nets) > 1 else (EQUAL, DIFFERS, BUILD)
    return [outcome if outcome and outcome.kind in sure else None for outcome in outcomes]


def _try(
    nets: Sequence[Net], make_recipe: Callable[[], Any], precision: torch.dtype | None
) -> Sequence[Outcome | None]:
    module = Joint(nets)
    inputs = tuple(as_in_a_program(value) for net in nets for value in net.inputs)
    seen: dict[str, Any] = {}
    with _failing(BUILD):
        program = _lowered(module, inputs, nets, make_recipe(), seen).buffer
    with tempfile.TemporaryDirectory() as folder, _failing(RUN):
        path = Path(folder, "net.pte")
        path.write_bytes(program)
        missing = _missing(path) if len(nets) > 1 else []
        if missing:
            return kernels.refused(nets, seen["lowered"], missing)
        with _failing(BUILD):
            runtime.check_needs(pte.read(path), "net")
        runs = list(zip(*([net.inputs, *net.more] for net in nets), strict=True))
        with runtime.Program(path, name="net") as opened:
            got = [_run(opened, [v for given in run for v in given]) for run in runs]
    quantized = seen.get("quantized", {}).get("forward")
    said = [_compared(nets, n, outputs, quantized, precision) for n, outputs in enumerate(got)]
    differences = ["".join(of_net[:1]) for of_net in map(_some, zip(*said, strict=True))]
    return [Outcome(DIFFERS, d) if d else Outcome(EQUAL) for d in differences]


def _some(said: Sequence[str]) -> list[str]:
    return [sentence for sentence in said if sentence]


def _missing(path: Path) -> list[str]:
    """Kernels that a program needs and the runtime lacks."""
    try:
        runtime.check_needs(pte.read(path), "net")
    except BuildError as error:
        lacking = _LACKING.search(str(error))
        return lacking[1].split(", ") if lacking else []
    return []


def _lowered(
    module: Joint, inputs: Any, nets: Sequence[Net], recipe: Any, seen: dict[str, Any]
) -> Any:
    is_dynamic = any(net.sizes is not None for net in nets)
    sizes = (
        (tuple(size for net in nets for size in (net.sizes or (None,) * len(net.inputs))),)
        if is_dynamic
        else None
    )
    # Without Dynamo, which traces Python and no operators, and takes three quarters of the time.
    method = Method(module, inputs, dynamic_shapes=sizes, strict=False)
    spec = ModelSpec({"forward": method})

    watch = stages.Watch(
        quantized=lambda modules: seen.update(quantized=modules),
        lowered=lambda edge: seen.update(lowered=edge.exported_program("forward")),
    )
    with fast_path.chosen("fast"):
        return stages.run(spec, recipe, Progress(), "//:net", etrecord=False, watch=watch)


def _run(program: runtime.Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    given = [arrays.of_torch(as_in_a_program(value)) for value in inputs]
    got = outputs_of(program, "forward", given)
    return [tensor_of(value) for value in got]


def tensor_of(value: Any) -> torch.Tensor:
    """A program's output, an array or a number, as a tensor."""
    if not isinstance(value, arrays.Array):
        return torch.tensor(value)
    data = torch.from_numpy(value.data.copy())
    return data.view(torch.bfloat16) if value.dtype == "bfloat16" else data


def _compared(
    nets: Sequence[Net],
    number: int,
    got: Sequence[torch.Tensor],
    quantized: Any,
    precision: torch.dtype | None,
) -> list[str]:
    """Describes what the outputs of each net differ by in one run."""
    runs = [[net.inputs, *net.more][number] for net in nets]
    eager = [reference.outputs(net, given) for net, given in zip(nets, runs, strict=True)]
    whole: Iterator[torch.Tensor] = iter(())
    if quantized is not None:
        with torch.no_grad():
            whole = iter(tensors(quantized(*(value for given in runs for value in given))))
    left, said = iter(got), []
    for net, given, own in zip(nets, runs, eager, strict=True):
        outputs = list(itertools.islice(left, len(own)))
        if quantized is None:
            exactly = reference.exact(net, given)
            rounded = reference.rounded(net, given, precision) if precision else None
            said.append(reference.difference(outputs, own, exactly, rounded=rounded))
        else:
            of_net = list(itertools.islice(whole, len(own)))
            said.append(reference.difference(outputs, of_net, None, eager=own))
    if list(left):
        raise _Failed(DIFFERS, "more outputs than the eager model has")
    return said


@contextlib.contextmanager
def _failing(kind: str) -> Iterator[None]:
    try:
        yield
    except _Failed:
        raise
    except Exception as error:
        raise _Failed(kind, shortened(error, _log() if kind == RUN else "")) from error


def shortened(error: Exception, log: str = "") -> str:
    """An error's first line, without what is of this run only, and what a log says last."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else ""
    lacking = _LACKING.search(said)
    if lacking:
        return f"no kernel: {lacking[1]}"
    said = f"{log} " if log else said
    place = r"//:net: |^net: |^\S*/net\.pte: |,? ?\(?/[\w./-]+:\d+\)?"
    said = re.sub(f"{place}|0x[0-9a-f]{{6,}}", "", said)
    said = re.sub(r"\b[us]\d+\b", "u", re.sub(r"\d{12,}", "…", said))
    name = type(error).__name__
    return (said if name == "BuildError" else f"{name}: {said}").strip()[:200]


def _log() -> str:
    """The first error of the runtime's log, where standard error is a file that can be read."""
    try:
        text = os.pread(2, 1 << 16, 0).decode("utf-8", "replace")
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)
    except OSError:
        return ""
    # E 00:00:00.000123 executorch:op_argmax.cpp:38] Check failed (…): …
    found = re.search(r"^E [\d:.]+ executorch:(\w+\.\w+):\d+\] (.*)$", text, re.MULTILINE)
    return f"{found[1]}: {found[2]}" if found else ""
