"""Time of a method: events of ExecuTorch's ETDump through upstream's Inspector."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etlink import pte, tables

_CALL = "native_call_"
_DELEGATE, _EXECUTE = "DELEGATE_CALL", "Method::execute"
# "Convolution (NHWC, F32) IGEMM #2": its number among several of one kind.
_NUMBER = re.compile(r" #\d+$")


@dataclass
class Delegate:
    """A call of a delegate.

    Attributes:
      backend: its name.
      ms: of the whole call.
      events: name and ms of each event of its own, in the order in which they ran.
    """

    backend: str
    ms: float = 0.0
    events: list[tuple[str, float]] = field(default_factory=list)


@dataclass
class Timeline:
    """Mean milliseconds of a method's instructions.

    The first of several runs is left out, as it also sets things up.

    Attributes:
      ms: of the whole method.
      kernels: number of the instruction, operator and ms of each call of ExecuTorch's own kernels.
      delegates: by number of the instruction.
    """

    ms: float = 0.0
    kernels: list[tuple[int, str, float]] = field(default_factory=list)
    delegates: dict[int, Delegate] = field(default_factory=dict)


def read(etdump: Path, method: str, program: Path) -> Timeline:
    """The events of runs of a method.

    Args:
      etdump: events of runs of one method.
      method: its name.
      program: the .pte, which says which delegate is of which backend.
    """
    from executorch.devtools import Inspector

    backends, _ = tables.calls_of(pte.read(program).program, method)
    timeline = Timeline()

    def delegate(instruction: int) -> Delegate:
        backend = backends.get(instruction, "a delegate")
        return timeline.delegates.setdefault(instruction, Delegate(backend))

    for block in Inspector(etdump_path=str(etdump)).event_blocks:
        if block.name != "Execute":
            continue
        for event in block.events:
            taken = _mean(event.perf_data.raw) if event.perf_data is not None else 0.0
            # Without an ETRecord the number of the instruction is all that relates the two.
            instruction = event._instruction_id
            if event.name == _EXECUTE:
                timeline.ms = taken
            elif event.is_delegated_op:
                delegate(instruction).events.append((event.name, taken))
            elif event.name == _DELEGATE:
                delegate(instruction).ms += taken
            elif event.name.startswith(_CALL):
                name = event.name.removeprefix(_CALL)
                timeline.kernels.append((instruction, name, taken))
    return timeline


def summary(timeline: Timeline) -> dict[str, Any]:
    """The mean milliseconds that each operator and each delegate took.

    Returns:
      "total_ms"; "operators", those of ExecuTorch's own kernels, with `name`, `calls`, `ms`;
      "delegates" with `backend`, `number`, `ms` and, where the backend says so, `operators`.
    """
    return {
        "total_ms": timeline.ms,
        "operators": _ranked((name, ms) for _, name, ms in timeline.kernels),
        "delegates": [
            {
                "backend": delegate.backend,
                "number": number,
                "ms": delegate.ms,
                "operators": _ranked((kind(name), ms) for name, ms in delegate.events),
            }
            for number, (_, delegate) in enumerate(sorted(timeline.delegates.items()))
        ],
    }


def kind(event: str) -> str:
    """The operator of a delegate's event, without its number among several of one kind."""
    return _NUMBER.sub("", event)


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


def _mean(raw: list[float]) -> float:
    values = raw[1:] or raw
    return sum(values) / len(values) if values else 0.0


def _ranked(calls: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    times: dict[str, list[float]] = {}
    for name, ms in calls:
        times.setdefault(name, []).append(ms)
    rows = [{"name": n, "calls": len(ms), "ms": sum(ms)} for n, ms in times.items()]
    return sorted(rows, key=lambda r: (-r["ms"], r["name"]))
