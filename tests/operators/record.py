"""Records what becomes of operators: `bazel run //tests/operators:record [-- OPTION…]`.

It tries nets of every operator (`samples.py`, `tables.py`, `fusions.py`) with each recipe of
recipes.bzl, which says how many, compares the programs' outputs with the eager model's, and writes
`backends/<name>/operators.json`, and docs/reference/operators.md from all of these. `--backend
xnnpack`, `--recipe fp32` and `--operator 'aten.add*'` choose some; the others keep their entries.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import actions

from tests.operators import page, results


def main() -> None:
    """Tries the nets, and writes records and page."""
    parser = argparse.ArgumentParser(prog="record", description=__doc__)
    parser.add_argument("--recipes", required=True, help='JSON: [["xnnpack", "fp32"], …]')
    parser.add_argument("--backend", action="append", default=[], help="of //backends")
    parser.add_argument("--recipe", action="append", default=[], help='pattern: "int8*"')
    parser.add_argument("--operator", action="append", default=[], help='pattern: "aten.add*"')
    options = parser.parse_args()
    workspace, failed = actions.workspace(), []
    recipes = json.loads(options.recipes)
    for backend, recipe in recipes:
        if options.backend and backend not in options.backend:
            continue
        if options.recipe and not any(fnmatch(recipe, pattern) for pattern in options.recipe):
            continue
        tried = _tried(workspace, f"{backend}_{recipe}", options.operator)
        if tried is None:
            failed.append(f"{backend}_{recipe}")
            continue
        file = workspace / results.path(backend)
        results.write(file, merged(results.read(file), recipe, tried, options.operator))
    page.write(workspace)
    if failed:
        sys.exit(f"Not recorded, as they failed: {', '.join(failed)}")


def _tried(workspace: Path, target: str, operators: list[str]) -> dict[str, Any] | None:
    """Runs the target of a recipe; None: it failed."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "tried.json")
        words = [f"--output={output}", *(f"--operator={name}" for name in operators)]
        command = ["./bazelw", "run", f"//tests/operators:{target}", "--", *words]
        done = subprocess.run(command, cwd=workspace, check=False)
        if done.returncode or not output.exists():
            return None
        tried: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
        return tried


def merged(
    record: dict[str, Any], recipe: str, tried: dict[str, Any], patterns: list[str]
) -> dict[str, Any]:
    """A record with what was tried in place of what it had; with patterns, of some operators."""
    entry = {name: value for name, value in tried.items() if name != "executorch"}
    before = record["recipes"].get(recipe)
    if patterns and before:
        operators = {**before["operators"], **tried["operators"]}
        is_new = before["operators"].keys().isdisjoint(tried["operators"])
        nets = before["nets"] + (tried["nets"] if is_new else 0)
        entry = {**before, "nets": nets, "operators": operators}
    recipes = {**record["recipes"], recipe: entry}
    return {"executorch": tried["executorch"], "recipes": recipes}


if __name__ == "__main__":
    main()
