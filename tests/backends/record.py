"""Records what became of the matrix's programs: `bazel run //tests/backends:record [-- PATTERN…]`.

It lowers each program of matrix.bzl, runs the tests of those that run, and writes what both
measured to tests/bench/results/backends.json. `PATTERN` names programs, e.g. `'*_vulkan_*'`: the
others keep what was recorded before. `bazel run //docs:update //tests/backends:update_docs` then
write the pages. A program that fails is left out, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import actions
import recorded
from recorded import Claim

_PACKAGE = "tests/backends"


def main() -> None:
    """Measures, and writes the record."""
    parser = argparse.ArgumentParser(prog="record", description=__doc__)
    parser.add_argument("--matrix", type=Path, required=True, help="matrix.json")
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of programs")
    options = parser.parse_args()
    rows = json.loads(options.matrix.read_text(encoding="utf-8"))["rows"]
    programs = recorded.programs(rows)
    chosen = {
        name: claim
        for name, claim in programs.items()
        if any(fnmatch.fnmatch(name, pattern) for pattern in options.patterns)
    }
    workspace = actions.workspace()
    path = workspace / recorded.PATH
    before = json.loads(path.read_text(encoding="utf-8"))["programs"] if path.exists() else {}
    kept = {n: e for n, e in before.items() if n in programs and n not in chosen}
    measured = _measured(workspace, chosen)
    record = {
        "machine": actions.machine(),
        "programs": dict(sorted({**kept, **measured}.items())),
    }
    actions.write_json(path, record)
    lost = sorted(chosen.keys() - measured.keys())
    if lost:
        sys.exit(f"Not recorded, as they failed: {', '.join(lost)}")


def _measured(workspace: Path, chosen: Mapping[str, Claim]) -> dict[str, Any]:
    """Builds and tests programs; returns the entries of those that did what their rows say."""
    running = [f"{name}_test" for name, claim in chosen.items() if claim.ran]
    done = _succeeded(workspace, ["build", "--output_groups=+report"], chosen)
    done |= _succeeded(workspace, ["test", "--local_test_jobs=1"], running)
    entries = {}
    for name, claim in chosen.items():
        if name not in done or (claim.ran and f"{name}_test" not in done):
            continue
        report = workspace / "bazel-bin" / _PACKAGE / f"{name}.report.json"
        lowered = recorded.of_report(json.loads(report.read_text(encoding="utf-8")))
        entries[name] = {"backend": claim.backend, **lowered}
        if claim.ran:
            log = workspace / "bazel-testlogs" / _PACKAGE / f"{name}_test/test.log"
            entries[name] |= recorded.of_log(log.read_text(encoding="utf-8"))
            entries[name]["test_seconds"] = round(done[f"{name}_test"], 1)
    return entries


def _succeeded(workspace: Path, command: Sequence[str], names: Iterable[str]) -> dict[str, float]:
    """Runs Bazel on targets; returns those that it built, or whose test passed, with seconds."""
    labels = [f"//{_PACKAGE}:{name}" for name in names]
    if not labels:
        return {}
    with tempfile.NamedTemporaryFile(suffix=".json") as events:
        words = [f"--build_event_json_file={events.name}", "--keep_going", *labels]
        subprocess.run(["./bazelw", *command, *words], cwd=workspace, check=False)
        return recorded.succeeded(map(json.loads, Path(events.name).read_text().splitlines()))


if __name__ == "__main__":
    main()
