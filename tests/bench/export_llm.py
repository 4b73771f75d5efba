"""Benchmark: a language model with upstream's own `export_llm` against the action of et_llm.

    ./bazelw run //tests/bench:export_llm -- [--program LABEL] [--layers N] [--pairs N]
        [--json FILE] [--svg FILE]

Both get the same weights and the same YAML file, those of the program, each in a fresh process of
the same interpreter and packages, upstream first and the action first in turn. Upstream's
checkpoint, which is made of the files that the action reads, is written before.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import actions
import drawing
import upstream_llm

PROGRAM = "//models:llama_xnnpack"


def main() -> None:
    """Runs the pairs; prints and writes the results."""
    parser = argparse.ArgumentParser(prog="export_llm", description=__doc__)
    parser.add_argument("--program", default=PROGRAM, help=f"of an et_llm; default {PROGRAM}")
    parser.add_argument("--layers", type=int, help="first layers of the model; default: all")
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--svg", type=Path, help="file to draw the seconds to")
    given = parser.parse_args()
    results = compare(actions.find(given.program), given.layers, given.pairs)
    actions.write_json(given.json, results)
    rows = [(run["by"], {"process": run["seconds"]}, run["seconds"]) for run in results["runs"]]
    actions.write_text(given.svg, lambda: drawing.bars(rows))


def compare(action: actions.Action, layers: int | None = None, pairs: int = 1) -> dict[str, Any]:
    """Runs the pairs, and prints what each run took.

    Args:
      action: lowers a program of an et_llm.
      layers: how many of the model's first layers; None: all.
      pairs: how many.

    Returns:
      As `figures` has it.
    """
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="export_llm", dir="/var/tmp") as scratch:
        depth = _prepare(action, layers, Path(scratch))
        for number in range(pairs):
            order = (_upstream, _action) if number % 2 == 0 else (_action, _upstream)
            for which in order:
                runs.append(which(action, layers, Path(scratch)))
                print(_line(runs[-1]), flush=True)
    results = figures(depth, runs)
    print(
        f"export_llm/action: {results['ratio']:.2f} ({results['cpu_ratio']:.2f} of the processor's)"
    )
    print(f"action/export_llm: peak memory {results['memory_ratio']:.2f}", end=", ")
    print(f"bytes of the program {results['size_ratio']:.2f}")
    return results


def figures(layers: int, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians of the pairs' ratios."""
    ratio = actions.ratios(runs, "by", ("export_llm", "action"))
    return {
        "machine": actions.machine(),
        "layers": layers,
        "ratio": ratio("seconds"),
        "cpu_ratio": ratio("cpu_seconds"),
        "memory_ratio": 1 / ratio("peak_memory_bytes"),
        "size_ratio": 1 / ratio("program_bytes"),
        "runs": list(runs),
    }


def _command(action: actions.Action, *words: str) -> list[str]:
    """Starts upstream_llm with the exporter's interpreter and packages."""
    roots = [Path(upstream_llm.__file__).parent, actions.workspace() / "tools"]
    paths = [word for root in roots for word in ("--path", str(root))]
    return [*action.tool, *paths, upstream_llm.__name__, *words]


def _files(action: actions.Action) -> list[str]:
    """The model's files, as NAME=PATH."""
    return [line.split("=", 1)[1] for line in action.request if line.startswith("--data=")]


def _prepare(action: actions.Action, layers: int | None, scratch: Path) -> int:
    """Writes upstream's checkpoint; returns the model's number of layers."""
    words = [f"--data={file}" for file in _files(action)]
    words += [f"--layers={layers or 0}", f"--folder={scratch}"]
    actions.run(_command(action, "prepare", *words), action.root)
    params = json.loads((scratch / upstream_llm.PARAMS).read_text(encoding="utf-8"))
    return params["n_layers"]


def _upstream(action: actions.Action, layers: int | None, scratch: Path) -> dict[str, Any]:
    program = scratch / "upstream.pte"
    [config] = [file for file in _files(action) if file.endswith((".yaml", ".yml"))]
    words = [f"--config={config.rpartition('=')[2]}", f"--folder={scratch}", f"--program={program}"]
    cost = actions.timed(_command(action, "export", *words), action.root)
    size = program.stat().st_size
    program.unlink()
    return {"by": "export_llm", **asdict(cost), "program_bytes": size}


def _action(action: actions.Action, layers: int | None, scratch: Path) -> dict[str, Any]:
    flags = actions.with_layers(action, layers) if layers else {}
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        lowered = Path(folder, "action")
        run = actions.lower(action, "fast", lowered, flags)
        index = json.loads((lowered / "lowered/index.json").read_text(encoding="utf-8"))
    kept = ("seconds", "cpu_seconds", "peak_memory_bytes", "stages")
    # The program as upstream would write it: its weights are in it.
    return {"by": "action", **{key: run[key] for key in kept}, "program_bytes": index["size"]}


def _line(run: dict[str, Any]) -> str:
    return f"{run['by']}: {actions.took(run)}, program of {run['program_bytes'] / 1e6:.1f} MB"


if __name__ == "__main__":
    main()
