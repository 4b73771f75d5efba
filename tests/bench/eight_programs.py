"""Benchmark: eight small programs, cold, with one build against eight plain Python processes.

`./bazelw run //tests/bench:eight_programs -- [--pairs N] [--json FILE]`

Each pair removes all outputs and workers, times the build, then times the eight exports one after
another with upstream's own API. Fetching the exporter environment is not part of either.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import actions

# As in programs.bzl.
EIGHT = [
    ("mlp", 64, "fp32"),
    ("mlp", 96, "int8_dynamic_act_int4_weight"),
    ("mlp", 128, "int8_dynamic_per_channel"),
    ("conv", 32, "fp32"),
    ("conv", 64, "int8_static_per_channel"),
    ("conv", 96, "fp32"),
    ("attention", 64, "fp32"),
    ("attention", 128, "fp32"),
]
TARGET = "//tests/bench:eight"


def main() -> None:
    """Runs the pairs and prints their times and the ratio of the medians."""
    parser = argparse.ArgumentParser(prog="eight_programs", description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    workspace = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    with tempfile.TemporaryDirectory(prefix="bench", dir="/var/tmp") as scratch:
        bazel = [str(workspace / "bazelw"), f"--output_base={scratch}/base"]
        _run([*bazel, "build", "@executorch_exporter//:exporter"], workspace)
        pairs = []
        try:
            for number in range(options.pairs):
                built = _built(bazel, workspace)
                plain = _plain(Path(scratch))
                pairs.append((built, plain))
                print(f"pair {number}: build {built:.1f} s, plain {plain:.1f} s", flush=True)
        finally:
            _run([*bazel, "shutdown"], workspace)
            subprocess.run(["chmod", "-R", "u+w", scratch], check=False)
    ratio = statistics.median(b / p for b, p in pairs)
    print(f"ratio build/plain: {ratio:.2f} (median of {len(pairs)} pairs)")
    figures = {"machine": actions.machine(), "ratio": ratio, "pairs": pairs}
    actions.write_json(options.json, figures)


def _built(bazel: list[str], workspace: Path) -> float:
    _run([*bazel, "clean"], workspace)
    start = time.monotonic()
    _run([*bazel, "build", TARGET], workspace)
    return time.monotonic() - start


def _plain(scratch: Path) -> float:
    program = Path(__file__).with_name("plain.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    start = time.monotonic()
    for number, (kind, width, recipe) in enumerate(EIGHT):
        output = scratch / f"plain{number}.pte"
        command = [sys.executable, str(program), kind, str(width), recipe, str(output)]
        _run(command, scratch, environment)
    return time.monotonic() - start


def _run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
