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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from etbuild import Method, ModelSpec
from etfast import path as fast_path
from etlink import pte
from etlower import arrays, stages
from etlower.cases import outputs_of
from etlower.progress import Progress
from runner import runtime

from tests.operators import reference
from tests.operators.nets import Joint, Net, tensors

EQUAL, DIFFERS, BUILD, RUN, CRASH = "equal", "differs", "build", "run", "crash"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a net.

    Attributes:
      kind: EQUAL; DIFFERS; BUILD and RUN, if it was refused there; CRASH: the process ended.
      reason: why, or by how much; empty if it is equal.
    """

    kind: str
    reason: str = ""


class _Failed(Exception):
    """Nets that are not equal, all together."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome = Outcome(kind, reason)


def try_together(nets: Sequence[Net], make_recipe: Callable[[], Any]) -> Outcome:
    """Tries nets in one program.

    Returns:
      EQUAL, if all are; else what was wrong first.
    """
    try:
        _try(nets, make_recipe)
    except _Failed as failed:
        return failed.outcome
    return Outcome(EQUAL)


def _try(nets: Sequence[Net], make_recipe: Callable[[], Any]) -> None:
    module = Joint(nets)
    inputs = tuple(value for net in nets for value in net.inputs)
    quantized: dict[str, Any] = {}
    with _failing(BUILD):
        manager = _lowered(module, inputs, nets, make_recipe(), quantized)
        program = manager.buffer
    runs = zip(*([net.inputs, *net.more] for net in nets), strict=True)
    with tempfile.TemporaryDirectory() as folder, _failing(RUN):
        path = Path(folder, "net.pte")
        path.write_bytes(program)
        runtime.check_needs(pte.read(path), "net")
        with runtime.Program(path, name="net") as opened:
            got = [_run(opened, [v for given in run for v in given]) for run in runs]
    for number, outputs in enumerate(got):
        _compare(nets, number, outputs, quantized.get("forward"))


def _lowered(
    module: Joint, inputs: Any, nets: Sequence[Net], recipe: Any, quantized: dict[str, Any]
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

    def keep(modules: Mapping[str, Any]) -> None:
        quantized.update(modules)

    with fast_path.chosen("fast"):
        watch = stages.Watch(quantized=keep)
        return stages.run(spec, recipe, Progress(), "//:net", etrecord=False, watch=watch)


def _run(program: runtime.Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    got = outputs_of(program, "forward", [arrays.of_torch(value) for value in inputs])
    return [_of_array(value) for value in got]


def _of_array(value: Any) -> torch.Tensor:
    if not isinstance(value, arrays.Array):
        return torch.tensor(value)
    data = torch.from_numpy(value.data.copy())
    return data.view(torch.bfloat16) if value.dtype == "bfloat16" else data


def _compare(nets: Sequence[Net], number: int, got: list[torch.Tensor], quantized: Any) -> None:
    if quantized is not None:
        inputs = [value for net in nets for value in [net.inputs, *net.more][number]]
        with torch.no_grad():
            own = tensors(quantized(*inputs))
        said = reference.difference(got, own, None, is_quantized=True)
        if said:
            raise _Failed(DIFFERS, said)
        return
    left = iter(got)
    for net in nets:
        given = [net.inputs, *net.more][number]
        own = reference.outputs(net, given)
        outputs = list(itertools.islice(left, len(own)))
        said = reference.difference(outputs, own, reference.exact(net, given))
        if said:
            raise _Failed(DIFFERS, said)
    if list(left):
        raise _Failed(DIFFERS, "more outputs than the eager model has")


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
    lacking = re.search(r"on this machine lacks (.*)\.$", said)
    if lacking:
        return f"no kernel: {lacking[1]}"
    said = f"{log} " if log else said
    said = re.sub(r"//:net: |^net: |^\S*/net\.pte: |\(?/[\w./-]+:\d+\)?|0x[0-9a-f]{6,}", "", said)
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
