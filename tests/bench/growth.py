"""Benchmark: seconds of each stage of a lowering by the depth of the model, and their functions.

    ./bazelw run //tests/bench:growth -- [--program LABEL] [--layers 5,10,20,30]
        [--paths fast,stock] [--pairs N] [--profile] [--json FILE] [--svg FILE]

Each lowering is a fresh process in which nothing is warm. A model whose entry point can't be cut to
layers is lowered at its one size. `--profile` lowers the largest once more under cProfile, which
makes Python code up to three times as slow, and prints the functions that most of the time is spent
in or under.
"""

from __future__ import annotations

import argparse
import json
import pstats
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import actions
import drawing

PROGRAM = "//models:llama_xnnpack"
# The entry point whose args may have "layers".
_CAN_BE_CUT = "etllm.entry:build"
_DEPTHS = "5,10,20,30"
# What every lowering is called through says nothing of where its time goes.
_FRAMES = ("/etlower/", "/launch.py", "/contextlib.py", "/cProfile.py", "<frozen runpy>")
_TOP = 25
_MOST_OF_IT = 0.97


def main() -> None:
    """Runs the lowerings; prints and writes the results."""
    parser = argparse.ArgumentParser(prog="growth", description=__doc__)
    parser.add_argument("--program", default=PROGRAM, help=f"an et_program; default {PROGRAM}")
    parser.add_argument("--layers", help=f"numbers; default {_DEPTHS} where models can be cut")
    parser.add_argument("--paths", default="fast", help="fast, stock or both, with a comma")
    parser.add_argument("--pairs", type=int, default=1, help="rounds of all lowerings")
    parser.add_argument("--profile", action="store_true", help="print the functions, too")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--svg", type=Path, help="file to draw the seconds to")
    given = parser.parse_args()
    paths = given.paths.split(",")
    if not set(paths) <= set(actions.PATHS):
        parser.error(f"--paths: got {given.paths}, expected {' or '.join(actions.PATHS)}")
    action = actions.find(given.program)
    can_be_cut = action.value("--entry_point") == _CAN_BE_CUT
    if given.layers and not can_be_cut:
        parser.error(f"--layers: {given.program} has no entry point that takes layers")
    layers_text = given.layers or (_DEPTHS if can_be_cut else "0")
    depths = sorted(int(depth) for depth in layers_text.split(","))
    runs: list[dict[str, Any]] = []
    tops: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="growth", dir="/var/tmp") as scratch:
        for number in range(given.pairs):
            for depth in depths:
                for path in paths if number % 2 == 0 else paths[::-1]:
                    folder = Path(scratch, f"{number}.{depth}.{path}")
                    runs.append(_lowered(action, path, depth, folder))
                    print(f"{depth or 'all'} layers, {actions.line(runs[-1])}", flush=True)
        for path in paths if given.profile else []:
            file = Path(scratch, f"{path}.profile")
            _lowered(action, path, depths[-1], Path(scratch, f"profile.{path}"), file)
            tops[path] = top(pstats.Stats(str(file)).stats)
    results = figures(given.program, runs, paths, depths)
    print("\n" + table(results["lowerings"]))
    for path, grown in results["growth_by_path"].items():
        ratio = f"{grown['seconds']:.2f} ({grown['cpu_seconds']:.2f} of the processor's time)"
        print(f"{path}: {grown['layers']} layers against {grown['against']}: {ratio}")
    for path, functions in tops.items():
        print(f"\n{path}, under cProfile:\n\n{_functions(functions)}")
    actions.write_json(given.json, {**results, "functions": tops, "runs": runs})
    actions.write_text(given.svg, lambda: _drawn(results["lowerings"]))


def _lowered(
    action: actions.Action, path: str, depth: int, folder: Path, profile: Path | None = None
) -> dict[str, Any]:
    flags = actions.with_layers(action, depth) if depth else {}
    run = actions.lower(action, path, folder, flags, profile)
    facts = json.loads((folder / "lowered/lowering.json").read_text(encoding="utf-8"))
    methods = facts["delegation"].values()
    return run | {
        "layers": depth,
        "nodes": sum(method["nodes"] for method in methods),
        "partitions": sum(len(method["delegates"]) for method in methods),
    }


def figures(
    program: str, runs: Sequence[Mapping[str, Any]], paths: Sequence[str], depths: Sequence[int]
) -> dict[str, Any]:
    """Medians of each depth and path, and their growth.

    Growth is the time of the deepest model against that of one as near as there is to a third of
    its depth: linear is 3, quadratic 9.
    """
    lowerings = []
    for path in paths:
        for depth in depths:
            same = [run for run in runs if run["path"] == path and run["layers"] == depth]
            stages = same[0]["stages"]
            lowerings.append(
                {
                    "path": path,
                    "layers": depth,
                    "nodes": same[0]["nodes"],
                    "partitions": same[0]["partitions"],
                    "seconds": statistics.median(run["seconds"] for run in same),
                    "cpu_seconds": statistics.median(run["cpu_seconds"] for run in same),
                    "stages": {
                        name: statistics.median(run["stages"][name] for run in same)
                        for name in stages
                    },
                }
            )
    by_path = {}
    if len(depths) > 1:
        most = depths[-1]
        third = min(depths[:-1], key=lambda depth: abs(depth - most / 3))
        for path in paths:
            of, to = (
                next(o for o in lowerings if (o["path"], o["layers"]) == (path, depth))
                for depth in (most, third)
            )
            ratios = {key: of[key] / to[key] for key in ("seconds", "cpu_seconds")}
            by_path[path] = {"layers": most, "against": third, **ratios}
    growth = by_path[paths[0]]["seconds"] if by_path else None
    return {
        "machine": actions.machine(),
        "program": program,
        "growth": growth,
        "growth_by_path": by_path,
        "lowerings": lowerings,
    }


def table(lowerings: Sequence[Mapping[str, Any]]) -> str:
    """Seconds of each stage, as Markdown."""
    stages = list(dict.fromkeys(name for one in lowerings for name in one["stages"]))
    head = ["path", "layers", "nodes", "partitions", *stages, "all", "CPU"]
    rows = [head, ["---"] * len(head)]
    for one in lowerings:
        seconds = [f"{one['stages'].get(name, 0):.1f}" for name in stages]
        rows.append(
            [one["path"], str(one["layers"] or "all"), str(one["nodes"]), str(one["partitions"])]
            + [*seconds, f"{one['seconds']:.1f}", f"{one['cpu_seconds']:.1f}"]
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def top(stats: Mapping[tuple[str, int, str], Any], most: int = _TOP) -> list[dict[str, Any]]:
    """Functions by cumulative time.

    Args:
      stats: of pstats: (file, line, name) to (…, calls, own seconds, seconds with callees, …).
      most: how many.

    Returns:
      The first ones, without the exporter's own, through which all of it is called, without modules
      that are imported, which are one function of Python's, and without those that only call one
      other function.
    """
    total = sum(entry[2] for entry in stats.values()) or 1.0
    # If nearly all of a caller's time is in one function, names that function instead.
    passing_on = {
        caller
        for _, _, _, seconds, callers in stats.values()
        for caller, (_, _, _, passed) in callers.items()
        if seconds < stats[caller][3] and passed > _MOST_OF_IT * stats[caller][3]
    }
    results = []
    for key, (_, calls, own, seconds, _) in stats.items():
        file, number, name = key
        if key in passing_on:
            continue
        is_frame = (
            any(part in file for part in _FRAMES) or name == "<built-in method builtins.exec>"
        )
        is_import = file.startswith("<frozen importlib") and name != "_find_and_load"
        if is_frame or is_import or name == "<module>":
            continue
        place = name if file == "~" else f"{_short(file)}:{number} {name}"
        figures = {"share": seconds / total, "seconds": seconds, "own": own, "calls": calls}
        results.append({"function": place, **figures})
    return sorted(results, key=lambda one: (-one["share"], one["function"]))[:most]


def _short(file: str) -> str:
    """A file's path relative to its import root."""
    for folder in ("/site-packages/", "/fastpath/", "/python3.11/", "/sources/_main/"):
        if folder in file:
            return file.rpartition(folder)[2]
    return file.rpartition("/")[2]


def _functions(functions: Sequence[Mapping[str, Any]]) -> str:
    rows = ["| function | share | seconds | own | calls |", "| --- | --- | --- | --- | --- |"]
    rows += [
        f"| `{one['function']}` | {one['share']:.0%} | {one['seconds']:.1f} | {one['own']:.1f} "
        f"| {one['calls']} |"
        for one in functions
    ]
    return "\n".join(rows)


def _drawn(lowerings: Sequence[Mapping[str, Any]]) -> str:
    """Lines over the depth; bars for a single depth."""
    if len({one["layers"] for one in lowerings}) == 1:
        return drawing.bars([(o["path"], o["stages"], o["seconds"]) for o in lowerings])
    series: dict[str, dict[int, float]] = {}
    several = len({one["path"] for one in lowerings}) > 1
    for one in lowerings:
        begin = f"{one['path']}: " if several else ""
        for name, seconds in {"all": one["seconds"], **one["stages"]}.items():
            series.setdefault(begin + name, {})[one["layers"]] = seconds
    return drawing.lines(series, "layers")


if __name__ == "__main__":
    main()
