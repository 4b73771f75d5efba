"""Delegated part of a program: percentages for the report, and `min_delegated`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink.amounts import amount
from etlink.json_file import read_object

# How many operators an error lists; the report has all of them.
_LISTED = 10

_AGAIN = "Lower the program again with the rules_executorch that links it."


def read(folder: Path) -> dict[str, Any]:
    """Reads what lowering recorded of the delegation of a program, by method.

    Raises:
      BuildError: there is no such record.
    """
    path = folder / "lowering.json"
    problem = "does not say what was delegated"
    delegation = read_object(path, problem, _AGAIN).get("delegation")
    if not isinstance(delegation, dict):
        raise BuildError(f'{path} {problem}: it has no "delegation".', _AGAIN)
    return delegation


def layers(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Reads the layers of the model that delegated operators come from: by method and operator.

    Returns:
      Names, sorted; nothing of a program that was not lowered here.

    Raises:
      BuildError: the record of the lowering is damaged.
    """
    path = folder / "lowering.json"
    if not path.is_file():
        return {}
    calls = read_object(path, "does not say which layers were delegated", _AGAIN).get("calls", {})
    found: dict[str, dict[str, list[str]]] = {}
    for method, instructions in calls.items():
        of_method: dict[str, set[str]] = {}
        for delegate in instructions["delegates"].values():
            for layer, operator, _ in delegate:
                if layer:
                    of_method.setdefault(operator, set()).add(layer)
        found[method] = {name: sorted(names) for name, names in sorted(of_method.items())}
    return found


def describe(methods: Mapping[str, Any]) -> dict[str, Any]:
    """The same with percentages, for the report.

    Args:
      methods: of `read`: nodes and FLOPs of each method, of its delegates, and of the operators
        that were left out of them.
    """
    return {
        name: {
            **{key: method[key] for key in ("nodes", "flops")},
            "delegated": _with_percent(_sum(method["delegates"]), method),
            "delegates": [_with_percent(part, method) for part in method["delegates"]],
            "left": [_with_percent(part, method) for part in method["left"]],
        }
        for name, method in methods.items()
    }


def check(label: str, methods: Mapping[str, Any], expected: str) -> None:
    """Fails where less than `expected` of a method is delegated.

    FLOPs count; in a method without any, nodes do.

    Args:
      label: the program.
      methods: as for `describe`.
      expected: "90%".

    Raises:
      BuildError: less of a method is delegated; the message lists what is not, and why.
    """
    number, is_percent = amount(expected, f"{label}: min_delegated")
    if not is_percent:
        raise BuildError(
            f'{label}: min_delegated: got "{expected}", expected a percentage such as "90%".',
            "Write how much of the FLOPs of each method must be delegated.",
        )
    problems = []
    for name, method in sorted(methods.items()):
        unit = "flops" if method["flops"] else "nodes"
        got = _percent(_sum(method["delegates"])[unit], method[unit])
        if got < number:
            problems.append(_problem(name, method, unit, got))
    if problems:
        raise BuildError(
            f"{label}: min_delegated: too little is delegated, expected at least {expected}.\n"
            + "\n".join(problems),
            "Use operators or a recipe that delegate more, or lower min_delegated.",
        )


def _problem(name: str, method: Mapping[str, Any], unit: str, got: float) -> str:
    kind = "FLOPs" if unit == "flops" else "nodes (it has no FLOPs)"
    # Rounded down: 89.96% is not 90.0%.
    lines = [f'Method "{name}": got {math.floor(10 * got) / 10}% of its {kind}. Not delegated:']
    left = [part for part in method["left"] if part[unit]]
    for part in left[:_LISTED]:
        percent = f"{_percent(part[unit], method[unit]):.1f}%"
        why = "; ".join(f"{r['reason']} ({r['example']})" for r in part["why"])
        lines.append(f"  {part['operator']} × {part['nodes']}, {percent}: {why}")
    if len(left) > _LISTED:
        more = len(left) - _LISTED
        lines.append(f"  and {more} more operators; --output_groups=report lists all")
    return "\n".join(lines)


def _sum(parts: list[dict[str, Any]]) -> dict[str, int]:
    return {unit: sum(part[unit] for part in parts) for unit in ("nodes", "flops")}


def _with_percent(part: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    percent = {
        f"{unit}_percent": round(_percent(part[unit], whole[unit]), 1) if whole[unit] else None
        for unit in ("nodes", "flops")
    }
    return {**part, **percent}


def _percent(part: int, whole: int) -> float:
    """All of nothing is delegated."""
    return 100 * part / whole if whole else 100.0
