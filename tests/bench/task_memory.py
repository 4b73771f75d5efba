"""Benchmark: memory and load times of SmolLM2 in 4 bits with LoRA tasks on its weights.

`./bazelw run //tests/bench:task_memory -- [--json FILE] [--repeat 3]`; of two layers:
`task_memory_small`.

Each row is a process of its own, with the runner's defaults. It loads its programs, runs each, and
reads its memory then. The limit is the foundation, and 1.1 times the tasks' own files: what they
compute with is not in files, so a row keeps it only if packed weights are shared. "By name": the
same tasks with adapter_data = "by_name". Load times are the least of several processes.
"2nd / 1st": the load of the second program against the first.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import actions

MIB = 1 << 20
RUNNER = Path("tools/runner/runner")
TASKS = (0, 1, 2, 4)
FIELDS = ("resident_bytes", "anonymous_bytes", "file_bytes")


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(prog="task_memory", description=__doc__)
    parser.add_argument("--app", type=Path, required=True, help="folder of the app")
    parser.add_argument("--by_name", type=Path, required=True, help="the same with tasks by name")
    parser.add_argument("--repeat", type=int, default=3, help="processes of each row")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    manifest = _manifest(options.app)
    # Sorted by name: the base, then the tasks.
    every, by_name = (sorted(_manifest(app)["programs"]) for app in (options.app, options.by_name))
    programs = [manifest["programs"][name] for name in every]
    sizes = {name: about["size"] for name, about in manifest["files"].items()}
    shared = programs[0]["data"]
    foundation = sum(sizes[file] for file in shared)
    rows = []
    for tasks in TASKS:
        names = every[: tasks + 1]
        own = sum(
            sizes[program["file"]]
            + sum(sizes[file] for file in program["data"] if file not in shared)
            for program in programs[1 : tasks + 1]
        )
        runs = [_run(options.app, names, []) for _ in range(options.repeat)]
        named = [_run(options.by_name, by_name[: tasks + 1], []) for _ in range(options.repeat)]
        rows.append(
            {
                "tasks": tasks,
                "own_bytes": own,
                "weight_cache": runs[0]["weight_cache"],
                "memory": _least(runs),
                "by_name": {"weight_cache": named[0]["weight_cache"], "memory": _least(named)},
                "without_cache": _memory(_run(options.app, names, ["--no_weight_cache"])),
                "load_ms": [
                    min(run["programs"][i]["load_ms"] for run in runs) for i in range(tasks + 1)
                ],
            }
        )
    figures = {"machine": actions.machine(), "foundation_bytes": foundation, "rows": rows}
    print(_table(figures))
    actions.write_json(options.json, figures)


def _manifest(app: Path) -> dict[str, Any]:
    return json.loads((app / "manifest.json").read_text())


def _run(app: Path, names: list[str], flags: list[str]) -> dict[str, Any]:
    command: list[str | Path] = [RUNNER, "--json", *flags, "--app", app]
    for name in names:
        command += ["--program", name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def _memory(run: dict[str, Any]) -> dict[str, int]:
    memory = run["programs"][-1]["memory_after_run"]
    return {field: memory[field] for field in FIELDS}


def _least(runs: list[dict[str, Any]]) -> dict[str, int]:
    return min(map(_memory, runs), key=lambda memory: memory["resident_bytes"])


def _table(figures: dict[str, Any]) -> str:
    foundation = figures["foundation_bytes"]
    lines = [
        f"foundation: {foundation / MIB:.1f} MiB in one file; memory in MiB, times in ms",
        "tasks  cache  resident  anonymous   limit  by name  without cache  1st load  2nd load  "
        "2nd / 1st",
    ]
    for row in figures["rows"]:
        memory, load = row["memory"], row["load_ms"]
        limit = foundation + 1.1 * row["own_bytes"]
        line = f"{row['tasks']:5}  {'on' if row['weight_cache'] else 'off':>5}"
        line += f"{memory['resident_bytes'] / MIB:10.1f}{memory['anonymous_bytes'] / MIB:11.1f}"
        apart = row["without_cache"]["resident_bytes"]
        named = row["by_name"]["memory"]["resident_bytes"]
        line += f"{limit / MIB:8.1f}{named / MIB:9.1f}{apart / MIB:15.1f}{load[0]:10.0f}"
        if len(load) > 1:
            line += f"{load[1]:10.0f}{load[1] / load[0]:11.2f}"
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
