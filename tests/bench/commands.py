"""Benchmark: the commands of the README in a fresh clone, with an empty home directory.

`./bazelw run //tests/bench:commands -- [--fast] [--json FILE] [--svg FILE]`

The last commit is cloned, so changes that are not committed do not count. Everything that Bazel
and the rules keep for a user is made anew; the settings of pip, npm and apt are the user's own.
`--svg` draws the terminal of all commands but the tests. A command that fails is left out of the
figures, and the exit code is 1. The clone is removed at the end.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import actions
import suites
import terminal

BUILD = "./bazelw build //models:llama_xnnpack"
CHAT = './bazelw run //models:llama_chat -- "What is the capital of France?"'
# Each test runs again, though it ran before as part of all.
FAST = "./bazelw test --nocache_test_results //tests:fast"
ALL = "./bazelw test //..."
_COUNT = re.compile(r"Executed (\d+) out of (\d+) tests?")


def main() -> None:
    """Runs the commands one after the other; prints and writes what they took."""
    parser = argparse.ArgumentParser(prog="commands", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="without the whole suite of tests")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--svg", type=Path, help="file to draw the terminal to")
    options = parser.parse_args()
    commands = [BUILD, CHAT, *([] if options.fast else [ALL, FAST])]
    with tempfile.TemporaryDirectory(prefix="bench", dir="/var/tmp") as scratch:
        results, rows = _play(commands, Path(scratch))
    actions.write_json(options.json, {"machine": actions.machine(), "commands": results})
    actions.write_text(options.svg, lambda: terminal.drawn(rows, f"{BUILD}; {CHAT}"))
    sys.exit(0 if len(results) == len(commands) else 1)


def _play(commands: list[str], scratch: Path) -> tuple[list[dict[str, Any]], list[Any]]:
    clone, home = scratch / "rules_executorch", scratch / "home"
    home.mkdir()
    actions.run(["git", "clone", "--quiet", str(actions.workspace()), str(clone)], scratch)
    results: list[dict[str, Any]] = []
    rows: list[tuple[str, str]] = []
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("BAZEL", "BUILD_"))}
    environment |= {"HOME": str(home)}
    try:
        for command in commands:
            events = scratch / "events.json"
            words = f" test --build_event_json_file={events} "
            start = time.monotonic()
            done = subprocess.run(
                command.replace(" test ", words),
                shell=True,
                cwd=clone,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            seconds = time.monotonic() - start
            print(f"{command}: {seconds:.0f} s", flush=True)
            if done.returncode:
                print(f"exit code {done.returncode}\n{done.stdout}", flush=True)
                continue
            results.append({"command": command, "seconds": round(seconds, 1)})
            if count := _COUNT.search(done.stdout):
                results[-1]["tests"] = int(count[2])
                with open(events, encoding="utf-8") as lines:
                    results[-1]["folders"] = suites.of_events(lines)
            else:
                rows += terminal.rows(command, done.stdout, seconds)
    finally:
        stop = ["./bazelw", "shutdown"]
        subprocess.run(stop, cwd=clone, env=environment, capture_output=True, check=False)
        # Bazel's outputs are read-only.
        subprocess.run(["chmod", "-R", "u+w", str(scratch)], check=False)
    return results, rows


if __name__ == "__main__":
    main()
