"""Benchmark: memory of one and of two programs in one process that load the same weights.

`./bazelw run //tests/bench:shared_memory -- [--json FILE] [--programs A.pte B.pte --data F.ptd]`

Without --programs: two synthetic programs with 128 MiB of equal weights, loaded from one data file.
Each row is a process of its own that loads its programs, runs each, and reads its memory then.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import actions

MIB = 1 << 20
HERE = Path("tests/bench")
RUNNER = Path("tools/runner/runner")
FIELDS = ("resident_bytes", "anonymous_bytes", "file_bytes", "peak_bytes")


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(prog="shared_memory", description=__doc__)
    parser.add_argument("--programs", type=Path, nargs=2, help="two .pte files")
    parser.add_argument("--data", type=Path, nargs="+", help=".ptd files that both load")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    if bool(options.programs) != bool(options.data):
        parser.error("--programs and --data go together")
    user = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    programs = [user / p for p in options.programs or ()]
    data = [user / p for p in options.data or ()]
    if not programs:
        programs = [HERE / "shared_relu.pte", HERE / "shared_sigmoid.pte"]
        data = [HERE / "shared_relu.ptd"]
        if data[0].read_bytes() != (HERE / "shared_sigmoid.ptd").read_bytes():
            sys.exit(
                "The two synthetic programs have unequal weights: shared_relu, shared_sigmoid."
            )
    rows = []
    for cache in (False, True):
        one, two = (_memory(programs[:count], data, cache) for count in (1, 2))
        rows.append({"weight_cache": cache, "one_program": one, "two_programs": two})
    figures = {
        "machine": actions.machine(),
        "data_bytes": sum(p.stat().st_size for p in data),
        "rows": rows,
    }
    print(_table(figures))
    actions.write_json(options.json, figures)


def _memory(programs: Sequence[Path], data: Sequence[Path], cache: bool) -> dict[str, int]:
    command: list[str | Path] = [
        RUNNER,
        "--json",
        "--weight_cache" if cache else "--no_weight_cache",
    ]
    for program in programs:
        command += ["--program", program]
        for file in data:
            command += ["--data", file]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    memory: dict[str, Any] = json.loads(done.stdout)["programs"][-1]["memory_after_run"]
    return {field: memory[field] for field in FIELDS}


def _table(figures: dict[str, Any]) -> str:
    titles = ("resident", "anonymous", "file", "peak")
    lines = [
        f"weights: {figures['data_bytes'] / MIB:.0f} MiB in one file; all figures in MiB",
        f"{'weight cache':14}{'programs':>9}" + "".join(f"{title:>11}" for title in titles),
    ]
    for row in figures["rows"]:
        cache = "on" if row["weight_cache"] else "off"
        one, two = ([row[key][f] / MIB for f in FIELDS] for key in ("one_program", "two_programs"))
        added = [b - a for a, b in zip(one, two, strict=True)]
        for label, values in (("1", one), ("2", two), ("2nd adds", added)):
            lines.append(f"{cache:14}{label:>9}" + "".join(f"{value:11.1f}" for value in values))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
