"""Benchmark: a build of many unchanged programs.

    ./bazelw run //tests/bench:null_build -- [--programs 2000] [--disk_cache FOLDER] [--json FILE]

Builds all programs of a workspace once, which takes about a second for each, and then again. The
median of those null builds is compared with the most that they may take; the exit code is 1 where
it is more, or where one of them starts an action.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from monorepo import Monorepo

_MOST_SECONDS = 2.0


def main() -> int:
    """Builds, prints the times of null builds and returns 1 if they are too long."""
    parser = argparse.ArgumentParser(prog="null_build", description=__doc__)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=5, help="number of null builds")
    parser.add_argument("--disk_cache", type=Path, help="where programs are kept for the next time")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args()
    module = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    here = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    with tempfile.TemporaryDirectory(prefix="null", dir="/var/tmp") as scratch:
        folder = Path(scratch, "monorepo")
        Monorepo(given.programs).write(folder, module)
        command = [str(module / "bazelw"), f"--output_base={scratch}/base"]
        flags = ["--noshow_progress", "//..."]
        if given.disk_cache:
            flags.insert(0, f"--disk_cache={(here / given.disk_cache).resolve()}")
        try:
            first = _timed([*command, "build", *flags], folder)[0]
            nulls = [_timed([*command, "build", *flags], folder) for _ in range(given.repeat)]
        finally:
            subprocess.run([*command, "shutdown"], cwd=folder, check=False)
            subprocess.run(["chmod", "-R", "u+w", scratch], check=False)
    seconds = statistics.median(time for time, _ in nulls)
    idle = all("1 process: 1 internal" in said or "0 processes" in said for _, said in nulls)
    print(
        f"{given.programs} programs: first build {first:.0f} s, null build {seconds:.2f} s (median)"
    )
    if given.json:
        figures = {"programs": given.programs, "first": first, "null": [t for t, _ in nulls]}
        (here / given.json).write_text(json.dumps(figures, indent=1) + "\n")
    if not idle:
        print(f"error: a null build has started actions:\n{nulls[-1][1]}", file=sys.stderr)
    if seconds > _MOST_SECONDS:
        print(f"error: expected at most {_MOST_SECONDS} s.", file=sys.stderr)
    return 0 if idle and seconds <= _MOST_SECONDS else 1


def _timed(command: list[str], folder: Path) -> tuple[float, str]:
    start = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    seconds = time.monotonic() - start
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return seconds, done.stderr


if __name__ == "__main__":
    sys.exit(main())
