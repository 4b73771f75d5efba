"""Where the time of a method goes: events of ExecuTorch's ETDump through upstream's Inspector."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etlink import pte, schema, tables

_CALL = "native_call_"
_DELEGATE, _EXECUTE = "DELEGATE_CALL", "Method::execute"
# "Convolution (NHWC, F32) IGEMM #2": its number among several of one kind.
_NUMBER = re.compile(r" #\d+$")


def summary(etdump: Path, method: str, program: Path) -> dict[str, Any]:
    """The mean milliseconds that each operator and each delegate took.

    The first of several runs is left out, as it also sets things up.

    Args:
      etdump: events of runs of one method.
      method: its name.
      program: the .pte, which says which delegate is of which backend.

    Returns:
      "total_ms"; "operators", those of ExecuTorch's own kernels, with `name`, `calls`, `ms`;
      "delegates" with `backend`, `number`, `ms` and, where the backend says so, `operators`.
    """
    from executorch.devtools import Inspector

    backends = _backends(program, method)
    total = 0.0
    operators: dict[str, list[float]] = {}
    delegates: dict[int, dict[str, Any]] = {}
    for block in Inspector(etdump_path=str(etdump)).event_blocks:
        if block.name != "Execute":
            continue
        for event in block.events:
            taken = _mean(event.perf_data.raw) if event.perf_data is not None else 0.0
            # Without an ETRecord the number of the instruction is all that relates the two.
            instruction = event._instruction_id
            if event.name == _EXECUTE:
                total = taken
            elif event.is_delegated_op:
                kind = _NUMBER.sub("", event.name)
                inner = _delegate(delegates, backends, instruction)["inner"]
                inner.setdefault(kind, []).append(taken)
            elif event.name == _DELEGATE:
                _delegate(delegates, backends, instruction)["ms"] += taken
            elif event.name.startswith(_CALL):
                operators.setdefault(event.name.removeprefix(_CALL), []).append(taken)
    return {
        "total_ms": total,
        "operators": _ranked(operators),
        "delegates": [
            {
                "backend": delegate["backend"],
                "number": number,
                "ms": delegate["ms"],
                "operators": _ranked(delegate["inner"]),
            }
            for number, (_, delegate) in enumerate(sorted(delegates.items()))
        ],
    }


def by_backend(events: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Milliseconds by backend, with the operators of its delegates, the slowest first.

    Args:
      events: as `summary` returns it.
    """
    sums: dict[str, dict[str, Any]] = {}
    for delegate in events["delegates"]:
        name = delegate["backend"]
        whole = sums.setdefault(name, {"backend": name, "calls": 0, "ms": 0.0, "inner": {}})
        whole["calls"] += 1
        whole["ms"] += delegate["ms"]
        for inner in delegate["operators"]:
            kind = whole["inner"].setdefault(inner["name"], {"calls": 0, "ms": 0.0})
            kind["calls"] += inner["calls"]
            kind["ms"] += inner["ms"]
    ranked = sorted(sums.values(), key=lambda w: (-w["ms"], w["backend"]))
    for whole in ranked:
        inner = whole.pop("inner")
        whole["operators"] = sorted(
            ({"name": name, **kind} for name, kind in inner.items()),
            key=lambda k: (-k["ms"], k["name"]),
        )
    return ranked


def _delegate(
    delegates: dict[int, dict[str, Any]], backends: Mapping[int, str], instruction: int
) -> dict[str, Any]:
    backend = backends.get(instruction, "a delegate")
    return delegates.setdefault(instruction, {"backend": backend, "ms": 0.0, "inner": {}})


def _mean(raw: list[float]) -> float:
    values = raw[1:] or raw
    return sum(values) / len(values) if values else 0.0


def _ranked(times: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    rows = [{"name": n, "calls": len(ms), "ms": sum(ms)} for n, ms in times.items()]
    return sorted(rows, key=lambda r: (-r["ms"], r["name"]))


def _backends(program: Path, method: str) -> dict[int, str]:
    """The backend that is called, by the number of the instruction."""
    kinds = schema.program_class("InstructionArguments")
    backends = {}
    for plan in pte.read(program).program.executionPlan:
        if tables.text(plan.name) != method:
            continue
        for chain in plan.chains or []:
            for number, instruction in enumerate(chain.instructions or []):
                if instruction.instrArgsType == kinds.DelegateCall:
                    delegate = plan.delegates[instruction.instrArgs.delegateIndex]
                    backends[number] = tables.text(delegate.id)
    return backends
