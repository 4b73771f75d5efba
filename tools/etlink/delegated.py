"""What of a program is delegated: shares for the report, and the least that a target asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

from etlink.amounts import amount
from etlink.json_file import read_object

# As many operators as an error names; the report has all of them.
_LISTED = 10

_AGAIN = "Lower the program again with the rules_executorch that links it."


def read(folder: Path) -> dict[str, Any]:
    """The facts on delegation of a lowered program, by method.

    Raises:
      BuildError: there are none.
    """
    path = folder / "lowering.json"
    problem = "doesn't say what was delegated"
    facts = read_object(path, problem, _AGAIN).get("delegation")
    if not isinstance(facts, dict):
        raise BuildError(f'{path} {problem}: it has no "delegation".', _AGAIN)
    return facts


def described(methods: Mapping[str, Any]) -> dict[str, Any]:
    """The facts with shares in per cent, for the report.

    Args:
      methods: what the exporter saw: nodes and FLOPs of each method, of its delegates, and of the
        operators that stayed behind.
    """
    return {
        name: {
            **{key: method[key] for key in ("nodes", "flops")},
            "delegated": _with_shares(_sum(method["delegates"]), method),
            "delegates": [_with_shares(one, method) for one in method["delegates"]],
            "left": [_with_shares(one, method) for one in method["left"]],
        }
        for name, method in methods.items()
    }


def check(label: str, methods: Mapping[str, Any], wanted: str) -> None:
    """Fails where less than `wanted` of a method is delegated.

    FLOPs count; in a method without any, nodes do.

    Args:
      label: the program.
      methods: as for `described`.
      wanted: "90%".

    Raises:
      BuildError: less of a method is delegated; the message lists what stayed behind, and why.
    """
    number, is_share = amount(wanted, f"{label}: min_delegated")
    if not is_share:
        raise BuildError(
            f'{label}: min_delegated = "{wanted}" is no share.',
            'Write how much of the FLOPs of each method must be delegated ("90%").',
        )
    problems = []
    for name, method in sorted(methods.items()):
        unit = "flops" if method["flops"] else "nodes"
        got = _share(_sum(method["delegates"])[unit], method[unit])
        if got < number:
            problems.append(_problem(name, method, unit, got))
    if problems:
        raise BuildError(
            f"{label}: less is delegated than min_delegated = {wanted} asks for.\n"
            + "\n".join(problems),
            "Use operators or a recipe that take more, or lower min_delegated.",
        )


def _problem(name: str, method: Mapping[str, Any], unit: str, got: float) -> str:
    kind = "FLOPs" if unit == "flops" else "nodes (it has no FLOPs)"
    # Rounded down: 89.96% is not the 90.0% that were asked for.
    lines = [f'Method "{name}": {math.floor(10 * got) / 10}% of its {kind}. What stayed behind:']
    listed = [one for one in method["left"] if one[unit]]
    for one in listed[:_LISTED]:
        share = f"{_share(one[unit], method[unit]):.1f}%"
        why = "; ".join(f"{r['reason']} ({r['example']})" for r in one["why"])
        lines.append(f"  {one['operator']} × {one['nodes']}, {share}: {why}")
    if len(listed) > _LISTED:
        more = len(listed) - _LISTED
        lines.append(f"  and {more} operators more; --output_groups=report has all")
    return "\n".join(lines)


def _sum(parts: list[dict[str, Any]]) -> dict[str, int]:
    return {unit: sum(part[unit] for part in parts) for unit in ("nodes", "flops")}


def _with_shares(part: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    shares = {
        f"{unit}_percent": round(_share(part[unit], whole[unit]), 1) if whole[unit] else None
        for unit in ("nodes", "flops")
    }
    return {**part, **shares}


def _share(part: int, whole: int) -> float:
    """In per cent. Nothing stayed behind where there was nothing."""
    return 100 * part / whole if whole else 100.0
