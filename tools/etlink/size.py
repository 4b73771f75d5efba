"""Checks the size of a program, and estimates of its compiler, against limits.

Contract: `etlink.size --label L --summary JSON [--max_bytes N] [--max_unshared_bytes N]
[--max_cycles N] [--max_sram N]`, with the summary that EtLink writes; exits with 1 if a limit is
exceeded.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser
from etbuild.errors import BuildError

from etlink import estimates
from etlink.amounts import bytes_of
from etlink.container import REBUILD
from etlink.json_file import fields_of, read_object

_SIZES = ("max_bytes", "max_unshared_bytes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the check; returns the exit code."""
    parser = ToolParser(prog="etlink.size", description=__doc__)
    parser.add_argument("--label", required=True)
    parser.add_argument("--summary", type=Path, required=True)
    for name in (*_SIZES, *estimates.LIMITS):
        parser.add_argument(f"--{name}", default="")
    args = parser.parse_args(arguments)
    sizes = {name: limit for name in _SIZES if (limit := getattr(args, name))}
    estimated = {name: limit for name in estimates.LIMITS if (limit := getattr(args, name))}
    try:
        summary = read_object(args.summary, "is not a summary of a program", REBUILD)
        with fields_of(args.summary, REBUILD):
            problems = exceeded(args.label, summary, sizes) if sizes else []
            numbers = {name: _number(args.label, name, limit) for name, limit in estimated.items()}
            program = summary["manifest"]["label"] if numbers else ""
            of_program = summary["estimates"] if numbers else {}
            problems += estimates.exceeded(args.label, program, of_program, numbers)
    except BuildError as error:
        problems = [str(error)]
    for problem in problems:
        print(f"FAILED: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _number(label: str, name: str, limit: str) -> float:
    return float(limit) if name == "max_cycles" else bytes_of(limit, f"{label}: {name}")


def exceeded(label: str, summary: Mapping[str, Any], limits: Mapping[str, str]) -> list[str]:
    """Lists the limits that a program exceeds.

    Args:
      label: the test, for messages.
      summary: of the linker.
      limits: "max_bytes" (all files that the program loads) and "max_unshared_bytes" (those that
        are its own) to an amount.

    Returns:
      One sentence for each; empty: none.

    Raises:
      BuildError: an amount is malformed.
    """
    own = summary["program_bytes"] + summary["data_bytes"]
    sizes = {
        "max_bytes": own + sum(s["file_bytes"] for s in summary["shared"]),
        "max_unshared_bytes": own,
    }
    problems = []
    for name, limit in limits.items():
        size = sizes[name]
        print(f"{label}: {size} bytes, {name} = {limit}")
        if size > bytes_of(limit, f"{label}: {name}"):
            largest = "; ".join(
                f"{u['name']} ({u['bytes']} bytes): {u['reason']}" for u in summary["unshared"][:5]
            )
            problems.append(
                f"{label}: {name} is exceeded: got {size} bytes, expected at most {limit}. The "
                f".pte has {summary['program_bytes']} bytes, its own .ptd {summary['data_bytes']}."
                + (f" Largest that is not shared: {largest}." if largest else "")
            )
    return problems


if __name__ == "__main__":
    sys.exit(main())
