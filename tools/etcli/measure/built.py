"""A program as it was built: its bytes, operators, delegation and time, by method and module.

Two exporters are compared by it: what a module's operators became, and what that costs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from etlink import process, pte, tables
from etlower import expected
from etlower.expected import Case
from runner import runtime

from etcli.measure import events, modules
from etcli.measure.events import Timeline

# Where operators run that no backend took.
KERNELS = "kernels"
_MEMBERS = ("operators", "backends", "delegates", "instructions")
_RUNS = {"is_language_model": False, "prompt_tokens": 0, "repeat": 5, "tokens": 0, "warm_up": 1}


@dataclass(frozen=True)
class Built:
    """The files of a program.

    Attributes:
      label: for messages.
      program: the .pte file.
      data: its .ptd files.
      manifest: None: there is none.
      report: of the program; None: nothing is known of its modules.
    """

    label: str
    program: Path
    data: Sequence[Path]
    manifest: Path | None
    report: Path | None

    def describe(self, cases: Sequence[Case], work: Path) -> dict[str, Any]:
        """Describes the program, and measures it on the first case of each method.

        Args:
          cases: inputs.
          work: a folder for files.

        Returns:
          `bytes` of all files; `methods`, by name: `operators`, `backends`, `delegates`,
          `instructions`; `ms`, the median of five runs, or None where an emulator runs the program;
          `modules`, each with its `name`, and without the modules in it: `bytes` of weights, `ms`,
          and `operators` by the backend that they run in, or by "kernels".
        """
        known = modules.read(self.report) if self.report else None
        times = {} if _is_emulated() else self._times(cases, work)
        content = pte.read(self.program).program
        return {
            "bytes": sum(path.stat().st_size for path in [self.program, *self.data]),
            "methods": {
                method["name"]: {
                    **{member: method[member] for member in _MEMBERS},
                    "ms": None,
                    "modules": [],
                    **self._of_method(content, method["name"], known, times),
                }
                for method in tables.describe_methods(content)
            },
        }

    def _of_method(
        self,
        content: Any,
        name: str,
        known: Mapping[str, Any] | None,
        times: Mapping[str, tuple[float, Timeline | None]],
    ) -> dict[str, Any]:
        ms, timeline = times.get(name, (None, None))
        ms = None if ms is None else _rounded(ms)
        if known is None:
            return {"ms": ms}
        tree = modules.of_method(timeline or Timeline(), name, known)["tree"]
        operators = _operators(content, name, known["calls"].get(name))
        own = {node["name"]: node for node in tree}
        for module, node in own.items():
            if node["own_bytes"]:
                operators.setdefault(module, {})
        return {
            "ms": ms,
            "modules": [
                {
                    "name": module,
                    "bytes": own[module]["own_bytes"] if module in own else 0,
                    "ms": _rounded(own[module]["own_ms"]) if timeline and module in own else None,
                    "operators": {place: sorted(of) for place, of in sorted(places.items())},
                }
                for module, places in operators.items()
            ],
        }

    def _times(self, cases: Sequence[Case], work: Path) -> dict[str, tuple[float, Timeline | None]]:
        """By method the median time in milliseconds, and its events; None: there are none."""
        first = {case.method: case for case in reversed(cases)}
        expected.write(work / "timed.safetensors", list(first.values()))
        measured = process.ask(
            "etcli.measure.measuring",
            {
                **_RUNS,
                "program": self.program,
                "data": list(self.data),
                "manifest": self.manifest or "",
                "cases": work / "timed.safetensors",
                "methods": list(first),
                "events": work,
            },
            work,
            self.label,
        )
        return {
            name: (
                1000 * median(case["seconds"]),
                events.read(Path(measured["events"][name]), name, self.program)
                if name in measured["events"]
                else None,
            )
            for name, case in measured["cases"].items()
        }


def _rounded(ms: float) -> float:
    return round(ms, 6)


def _is_emulated() -> bool:
    return bool(os.environ.get(runtime.EMULATORS)) or runtime.emulated_library() is not None


def _operators(
    content: Any, method: str, calls: Mapping[str, Any] | None
) -> dict[str, dict[str, list[str]]]:
    """Operators by module and by what they run in."""
    if calls is None:
        return {}
    backends, kernels = tables.calls_of(content, method)
    found: dict[str, dict[str, list[str]]] = {}
    for number, nodes in calls["delegates"].items():
        for module, operator, _ in nodes:
            place = backends.get(int(number), "a delegate")
            found.setdefault(module, {}).setdefault(place, []).append(operator)
    for number, module in calls["kernels"].items():
        operator = kernels.get(int(number), "unknown")
        found.setdefault(module, {}).setdefault(KERNELS, []).append(operator)
    return found
