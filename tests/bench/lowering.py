"""Benchmark: lowering a program with upstream's own functions against the fast path, byte for byte.

`./bazelw run //tests/bench:lowering -- [--program LABEL] [--pairs N] [--fast] [--export_llm]
[--json FILE] [--svg FILE]`

Each pair runs the action of the program twice, one-shot: as a fresh process in which nothing is
warm, the stock path first and the fast one first in turn. The ratios are those of the time on the
clock and of the processor's. Then a persistent worker that is up runs the action on the fast path.
With --fast the fast path runs alone, and with --export_llm beside it upstream's own `export_llm` on
the same files, one pair.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import actions
import drawing
import export_llm

PROGRAM = export_llm.PROGRAM


def main() -> None:
    """Runs the pairs; prints and writes the results."""
    parser = argparse.ArgumentParser(prog="lowering", description=__doc__)
    parser.add_argument("--program", default=PROGRAM, help=f"an et_program; default {PROGRAM}")
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--fast", action="store_true", help="the fast path alone, without ratios")
    parser.add_argument("--export_llm", action="store_true", help="of an et_llm; implies --fast")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--svg", type=Path, help="file to draw the seconds of each stage to")
    options = parser.parse_args()
    action = actions.find(options.program)
    is_fast = options.fast or options.export_llm
    paths = actions.PATHS[1:] if is_fast else actions.PATHS
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="bench", dir="/var/tmp") as scratch:
        for number in range(options.pairs):
            for path in paths if number % 2 == 0 else paths[::-1]:
                runs.append(actions.lower(action, path, Path(scratch) / f"{number}.{path}"))
                print(actions.line(runs[-1]), flush=True)
        if not is_fast:
            runs.append(actions.lower_warm(action, Path(scratch) / actions.WARM))
            print(actions.line(runs[-1]), flush=True)
    if is_fast:
        pair = {"export_llm": export_llm.compare(action)} if options.export_llm else {}
        actions.write_json(options.json, {"machine": actions.machine(), "runs": runs, **pair})
        return
    results = _figures(options.program, runs)
    print(
        f"stock/fast: {results['ratio']:.2f} ({results['cpu_ratio']:.2f} of the processor's time)"
    )
    print(f"stock/fast in a warm worker: {results['warm_ratio']:.2f}")
    print(f"peak memory fast/stock: {results['memory_ratio']:.2f}")
    print("same bytes" if results["same_bytes"] else "OTHER BYTES")
    actions.write_json(options.json, results)
    rows = [(run["path"], run["stages"], run["seconds"]) for run in runs]
    actions.write_text(options.svg, lambda: drawing.bars(rows))
    sys.exit(0 if results["same_bytes"] else 1)


def _figures(program: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    ratio = actions.ratios(runs, "path", actions.PATHS)
    return {
        "machine": actions.machine(),
        "program": program,
        "ratio": ratio("seconds"),
        "cpu_ratio": ratio("cpu_seconds"),
        "warm_ratio": _median(runs, "stock") / _median(runs, actions.WARM),
        "memory_ratio": 1 / ratio("peak_memory_bytes"),
        "same_bytes": len({run["sha256"] for run in runs}) == 1,
        "runs": runs,
    }


def _median(runs: list[dict[str, Any]], path: str) -> float:
    return statistics.median(run["seconds"] for run in runs if run["path"] == path)


if __name__ == "__main__":
    main()
