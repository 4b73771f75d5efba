"""Benchmark: how analysis of a large workspace grows with the number of its programs.

    ./bazelw run //tests/bench:analysis -- [--sizes 250,500,1000,2000] [--rounds 3] [--json FILE]

Each round takes all sizes in turn. For each a new server first analyses one program, its test and
an app, then everything (`bazel build --nobuild //...`): what that adds in time and in the server's
heap, by program, is what is measured. A program comes with its model and its test. Growth is the
cost of a program at one size against that at the size before; where it is more than {most} at the
last, the exit code is 1. Fetching is not part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from monorepo import Monorepo

# Linear is 1, quadratic 2.
_MOST_GROWTH = 1.15
# What is the same for any number of programs: toolchains, the runtime, our own targets.
_WARM_UP = ("//foundation_00:task_0", "//foundation_00:task_0_test", "//apps/first")


@dataclass(frozen=True)
class Cost:
    """The cost of analyzing a workspace.

    Attributes:
        seconds: wall time of the build command.
        cpu_seconds: of the server meanwhile, in all threads.
        heap_mb: what it adds to the server's heap, in MiB, after garbage collection.
    """

    seconds: float
    cpu_seconds: float
    heap_mb: float


class Server:
    """A Bazel server for a workspace in a scratch folder."""

    def __init__(self, scratch: Path, module: Path) -> None:
        self.folder = scratch / "monorepo"
        self._module = module
        self._scratch = scratch
        self._command = [str(module / "bazelw"), f"--output_base={scratch}/base"]

    def run(self, *arguments: str) -> str:
        """Runs Bazel; returns its standard output."""
        done = subprocess.run(
            [*self._command, *arguments], cwd=self.folder, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"bazel {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def write(self, programs: int) -> None:
        """Writes the workspace."""
        self.folder.mkdir(exist_ok=True)
        Monorepo(programs).write(self.folder, self._module)

    def heap(self) -> float:
        """The server's heap in MiB, after garbage collection."""
        return int(self.run("info", "used-heap-size-after-gc").strip().removesuffix("MB"))

    def measure(self, programs: int) -> Cost:
        """Analyses a workspace in a new server."""
        self.write(programs)
        self.run("shutdown")
        self.run("build", "--nobuild", *_WARM_UP)
        before = self.heap()
        events = self._scratch / "events.json"
        self.run("build", "--nobuild", f"--build_event_json_file={events}", "//...")
        times = _metrics(events)["timingMetrics"]
        return Cost(
            seconds=int(times["wallTimeInMs"]) / 1000,
            cpu_seconds=int(times["cpuTimeInMs"]) / 1000,
            heap_mb=self.heap() - before,
        )


def _metrics(events: Path) -> dict[str, dict[str, str]]:
    for line in events.read_text().splitlines():
        event = json.loads(line)
        if "buildMetrics" in event:
            return event["buildMetrics"]
    sys.exit("Bazel has written no metrics")


def growth(rounds: list[dict[int, Cost]], what: str) -> dict[int, float]:
    """Cost per program at each size relative to the previous size: medians over rounds."""
    sizes = sorted(rounds[0])

    def of_program(costs: dict[int, Cost], size: int) -> float:
        return getattr(costs[size], what) / size

    return {
        size: statistics.median(of_program(r, size) / of_program(r, before) for r in rounds)
        for before, size in zip(sizes, sizes[1:], strict=False)
    }


def summary(rounds: list[dict[int, Cost]]) -> dict[int, Cost]:
    """Medians by size."""
    return {
        size: Cost(
            *(
                statistics.median(getattr(r[size], f) for r in rounds)
                for f in asdict(rounds[0][size])
            )
        )
        for size in sorted(rounds[0])
    }


def main() -> int:
    """Measures, prints a table and returns 1 if growth is more than linear."""
    parser = argparse.ArgumentParser(
        prog="analysis", description=(__doc__ or "").format(most=_MOST_GROWTH)
    )
    parser.add_argument("--sizes", default="250,500,1000,2000", help="numbers of programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args()
    sizes = sorted(int(size) for size in given.sizes.split(","))
    module = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    rounds: list[dict[int, Cost]] = []
    with tempfile.TemporaryDirectory(prefix="analysis", dir="/var/tmp") as scratch:
        server = Server(Path(scratch), module)
        server.write(sizes[0])
        try:
            server.run("build", "--nobuild", "//...")
            for number in range(given.rounds):
                rounds.append({size: server.measure(size) for size in sizes})
                print(f"round {number}: {rounds[-1]}", file=sys.stderr, flush=True)
        finally:
            server.run("shutdown")
            subprocess.run(["chmod", "-R", "u+w", scratch], check=False)
    costs = summary(rounds)
    grown = {what: growth(rounds, what) for what in ("cpu_seconds", "heap_mb")}
    print("programs   seconds   CPU seconds   heap MiB   ms CPU/program   KiB/program")
    for size, cost in costs.items():
        print(
            f"{size:8} {cost.seconds:9.1f} {cost.cpu_seconds:13.1f} {cost.heap_mb:10.0f} "
            f"{cost.cpu_seconds / size * 1000:16.2f} {cost.heap_mb / size * 1024:13.1f}"
        )
    for what, by_size in grown.items():
        print(f"growth of {what}:", ", ".join(f"{n}: {g:.2f}" for n, g in by_size.items()))
    if given.json:
        path = Path(os.environ.get("BUILD_WORKING_DIRECTORY", ".")) / given.json
        figures = {
            "sizes": {size: asdict(cost) for size, cost in costs.items()},
            "growth": grown,
            "rounds": [{size: asdict(c) for size, c in r.items()} for r in rounds],
        }
        path.write_text(json.dumps(figures, indent=1) + "\n")
    worst = {what: by_size[sizes[-1]] for what, by_size in grown.items() if by_size}
    bad = {what: growth for what, growth in worst.items() if growth > _MOST_GROWTH}
    for what, ratio in bad.items():
        print(
            f"error: {what} of a program grow by {ratio:.2f} from {sizes[-2]} to {sizes[-1]} "
            f"programs; expected at most {_MOST_GROWTH}: something is more than linear.",
            file=sys.stderr,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
