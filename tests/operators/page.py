"""Writes docs/reference/operators.md from the records: `page WORKSPACE OUTPUT`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.operators import results

PAGE = "docs/reference/operators.md"

_HEAD = """\
<!-- Made from the backends' operators.json: bazel run //tests/operators:record -->

# Operators by backend

Each operator of PyTorch that torch's own tests have samples for is lowered, run in ExecuTorch's
runtime, and compared with the eager model in float64. So are tables of parameters that matter
together, numbers at the edges of their types and up to ten thousand, layouts, sizes that vary, and
neighbors that passes match. A quantized program is compared with its quantized graph in eager mode,
and one whose backend computes in 16 bits by steps of these. Accelerators' programs run in their
emulators, and crashes of Vulkan's are those of the runtime that apps get (ExecuTorch 1.3.1).

| outcome | meaning |
|---|---|
| equal | each output is the eager model's, but for rounding |
| differs | an output is another one |
| ends the process | the runtime aborts |
| refused at run time | the program is built, and an error is returned when it is loaded or run |
| refused at build time | the build fails |

`bazel run //tests/operators:record` measures again. `bazel test //...` tries nets of each operator
and compares. How many nets of an operator a record has, and which recipes have one, is in
`tests/operators/recipes.bzl`.
"""


def text(records: Mapping[str, Mapping[str, Any]]) -> str:
    """The page.

    Args:
      records: of backends by folder.
    """
    sections = [_HEAD, _summary(records)]
    for backend, record in sorted(records.items()):
        for name, recipe in sorted(record["recipes"].items()):
            sections += [f"\n## {backend}: {name}\n", *_tables(recipe["operators"])]
    return "\n".join(sections).rstrip() + "\n"


def _summary(records: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["| recipe | ExecuTorch | nets | operators, all equal | with others | minutes |"]
    lines += ["|---|---|---|---|---|---|"]
    for backend, record in sorted(records.items()):
        for name, recipe in sorted(record["recipes"].items()):
            operators = recipe["operators"]
            equal = sum(set(entry) == {results.EQUAL} for entry in operators.values())
            lines.append(
                f"| `//backends/{backend}:{name}` | {record['executorch']} | {recipe['nets']:,} | "
                f"{equal} | {len(operators) - equal} | {recipe['minutes']:.1f} |"
            )
    return "\n".join([*lines, "", "Minutes are of one core.", ""])


def _tables(operators: Mapping[str, Any]) -> Iterator[str]:
    equal = [name for name, entry in operators.items() if set(entry) == {results.EQUAL}]
    yield f"All nets of {len(equal)} operators are equal.\n"
    by_kind = Counter(kind for _, kind, _, _ in results.exceptions(operators))
    for kind, title in results.KINDS.items():
        if not by_kind[kind]:
            continue
        yield f"| {title} | why, or by how much | nets |\n|---|---|---|"
        found = [e for e in results.exceptions(operators) if e[1] == kind]
        yield "\n".join(_rows(found, operators)) + "\n"


def _rows(
    exceptions: Sequence[tuple[str, str, str, list[str]]], operators: Mapping[str, Any]
) -> Iterator[str]:
    for operator, _, reason, nets in exceptions:
        cell = "; ".join(nets[:2]) + (f"; {len(nets) - 2} more" if len(nets) > 2 else "")
        yield f"| `{operator}` | {_escaped(reason)} | {_escaped(cell)} |"


def _escaped(cell: str) -> str:
    for sign in "\\`*_<[":
        cell = cell.replace(sign, "\\" + sign)
    return cell.replace("|", "\\|")


def records(workspace: Path) -> dict[str, Any]:
    """The records of all backends that have one, by folder."""
    files = sorted(workspace.glob(results.path("*")))
    return {file.parent.name: results.read(file) for file in files}


def write(workspace: Path) -> None:
    """Writes the page of a checkout."""
    (workspace / PAGE).write_text(text(records(workspace)), encoding="utf-8")


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(text(records(Path(sys.argv[1]))), encoding="utf-8")
