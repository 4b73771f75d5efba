"""The record of a backend's operators, `backends/<name>/operators.json`.

    {
      "executorch": "1.5.1",
      "recipes": {
        "fp32": {
          "nets": 6590,
          "minutes": 7,
          "operators": {
            "abs": {"equal": 9},
            "aminmax": {"equal": 8, "crash": {"SIGABRT": ["float32 6: 5x0x5, dim=0"]}},
            "addmv": {"build": {"no kernel: aten::addmv.out": ["all"]}}
          }
        }
      }
    }

Of an operator it has how many nets are equal, and by outcome and reason those that are not: by
their parameters, by a type whose nets all have that outcome ("float16"), or "all". `minutes` are
of one core. A net that no operator has is not recorded.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

EQUAL = "equal"
# In the order of the record and the page; what people call them.
KINDS = {
    "differs": "differs",
    "crash": "ends the process",
    "run": "refused at run time",
    "build": "refused at build time",
}
_ALL = "all"


def path(backend: str) -> str:
    """The record of a folder in //backends, from the workspace's root."""
    return f"backends/{backend}/operators.json"


def described(outcomes: Iterable[tuple[str, str, str, str]]) -> dict[str, Any]:
    """The part `operators` of a recipe.

    Args:
      outcomes: operator, parameters, kind, reason of each net.
    """
    by_operator: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for operator, *rest in sorted(outcomes):
        by_operator[operator].append((rest[0], rest[1], rest[2]))
    return {operator: _entry(nets) for operator, nets in sorted(by_operator.items())}


def _entry(nets: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    count = sum(kind == EQUAL for _, kind, _ in nets)
    if count:
        entry[EQUAL] = count
    totals = Counter(_dtype(parameters) for parameters, *_ in nets)
    for kind in KINDS:
        reasons: dict[str, list[str]] = defaultdict(list)
        for parameters, of_net, reason in nets:
            if of_net == kind:
                reasons[reason].append(parameters)
        if reasons:
            entry[kind] = {r: _short(p, totals) for r, p in sorted(reasons.items())}
    return entry


def _short(parameters: Sequence[str], totals: Mapping[str, int]) -> list[str]:
    if len(parameters) == sum(totals.values()):
        return [_ALL]
    counts = Counter(map(_dtype, parameters))
    whole = {dtype for dtype, count in counts.items() if count == totals[dtype] and count > 1}
    return sorted(whole) + [p for p in parameters if _dtype(p) not in whole]


def _dtype(parameters: str) -> str:
    return parameters.split()[0].rstrip(":")


def recorded(operators: Mapping[str, Any], operator: str, parameters: str) -> str | None:
    """The outcome that a record has for a net; None: it does not have the operator."""
    entry = operators.get(operator)
    if entry is None:
        return None
    names = {_ALL, _dtype(parameters), parameters}
    for kind in KINDS:
        for of_reason in entry.get(kind, {}).values():
            if not names.isdisjoint(of_reason):
                return kind
    return EQUAL


def exceptions(operators: Mapping[str, Any]) -> Iterator[tuple[str, str, str, list[str]]]:
    """Operator, kind, reason and nets of what is not equal."""
    for operator, entry in operators.items():
        for kind in KINDS:
            for reason, nets in entry.get(kind, {}).items():
                yield operator, kind, reason, nets


def read(file: Path) -> dict[str, Any]:
    """Reads a record; an empty one, if there is none."""
    if not file.exists():
        return {"executorch": "", "recipes": {}}
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return record


def write(file: Path, record: Mapping[str, Any]) -> None:
    """Writes a record with a line for each operator, so that differences are readable."""
    recipes = []
    for name, recipe in sorted(record["recipes"].items()):
        lines = [
            f"        {json.dumps(operator)}: {json.dumps(entry, ensure_ascii=False)}"
            for operator, entry in sorted(recipe["operators"].items())
        ]
        head = "".join(
            f"      {json.dumps(key)}: {json.dumps(value)},\n"
            for key, value in recipe.items()
            if key != "operators"
        )
        operators = ",\n".join(lines)
        body = f'{head}      "operators": {{\n{operators}\n      }}'
        recipes.append(f"    {json.dumps(name)}: {{\n{body}\n    }}")
    text = ",\n".join(recipes)
    executorch = json.dumps(record["executorch"])
    file.write_text(
        f'{{\n  "executorch": {executorch},\n  "recipes": {{\n{text}\n  }}\n}}\n', encoding="utf-8"
    )
