"""Checks the size of a program against limits, from the summary that EtLink writes.

Contract: `etlink.size --label L --summary JSON [--max_bytes N] [--max_unshared_bytes N]`; exits
with 1 if a limit is exceeded.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser
from etbuild.errors import BuildError

from etlink.amounts import bytes_of
from etlink.container import REBUILD
from etlink.json_file import fields_of, read_object


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the check; returns the exit code."""
    parser = ToolParser(prog="etlink.size", description=__doc__)
    parser.add_argument("--label", required=True)
    parser.add_argument("--summary", type=Path, required=True)
    parser.add_argument("--max_bytes", default="")
    parser.add_argument("--max_unshared_bytes", default="")
    args = parser.parse_args(arguments)
    limits = {"max_bytes": args.max_bytes, "max_unshared_bytes": args.max_unshared_bytes}
    try:
        summary = read_object(args.summary, "is not a summary of a program", REBUILD)
        with fields_of(args.summary, REBUILD):
            problems = exceeded(args.label, summary, {k: v for k, v in limits.items() if v})
    except BuildError as error:
        problems = [str(error)]
    for problem in problems:
        print(f"FAILED: {problem}", file=sys.stderr)
    return 1 if problems else 0


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
