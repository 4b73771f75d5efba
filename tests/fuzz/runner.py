"""Fuzzes the runner, built with sanitizers, with files from grammars.

    bazel run //tests/fuzz:runner -- --seconds 600            # others each time with another --seed
    bazel run //tests/fuzz:runner -- --only tokenizer --seed 4711 --seconds 0   # these again

Each file is read, or refused with one sentence, in bounded time and memory. What isn't stays in a
folder that is named at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
_REPOSITORY = Path(__file__).absolute().parents[2]
sys.path[:0] = [str(_REPOSITORY)]

from tests.fuzz import runner_files  # noqa: E402  (needs the path set above)
from tests.fuzz.runner_tokenizers import Generator  # noqa: E402

KINDS = (*runner_files.KINDS, "tokenizer")
_DRIVER = _REPOSITORY / "tests/fuzz/runner_driver"
_MOST_MB = 3000
_SECONDS = 120  # Per start: of 50 files, with sanitizers, on a machine with other work.
_FILES = 50  # Per start of the driver.
_TEXTS = 20  # Per tokenizer.


@dataclass(frozen=True)
class Reading:
    """The runner's answers for files.

    Attributes:
      lines: for each file "good", or what is wrong with it; fewer than files after a crash.
      problem: what is wrong with the runner; "": nothing.
    """

    lines: list[str]
    problem: str


def read(kind: str, paths: Sequence[Path]) -> Reading:
    """Has the runner read files of a kind."""
    try:
        done = subprocess.run(
            [_DRIVER, kind, *paths],
            capture_output=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
            env={"ASAN_OPTIONS": f"hard_rss_limit_mb={_MOST_MB}"},
        )
    except subprocess.TimeoutExpired as expired:
        lines = (expired.stdout or b"").decode(errors="replace").split("\n")[:-1]
        return Reading(lines, f"takes longer than {expired.timeout} seconds")
    lines = done.stdout.split("\n")[:-1]
    if done.returncode != 0 or done.stderr or len(lines) != len(paths):
        return Reading(lines, f"exit code {done.returncode}: {done.stderr[:5000]}")
    return Reading(lines, "")


def write(kind: str, seed: int, folder: Path) -> list[Path]:
    """Writes the files of a kind that a seed stands for."""
    if kind == "tokenizer":
        path, generator = folder / f"tokenizer-{seed}.json", Generator(seed)
        path.write_text(json.dumps(generator.tokenizer()))
        texts = "".join(f"{generator.text()}\0" for _ in range(_TEXTS))
        path.with_name(f"{path.name}.texts").write_bytes(texts.encode())
        return [path]
    numbers = random.Random(f"{kind} {seed}")
    paths = [folder / f"{kind}-{seed}-{number}" for number in range(_FILES)]
    for path in paths:
        path.write_bytes(runner_files.generated(kind, numbers))
    return paths


def fuzz(
    kinds: Sequence[str], seed: int, seconds: float, folder: Path, seeds: int = 1
) -> tuple[dict[str, set[str]], int]:
    """Has the runner read the files of a number of seeds, and then more until the time is over.

    Returns:
      What it said of the files of each kind, without their names, and how many readings failed.
    """
    said: dict[str, set[str]] = {kind: set() for kind in kinds}
    began, failed, count = time.monotonic(), 0, 0
    while count < seeds * len(kinds) or time.monotonic() - began < seconds:
        kind, number = kinds[count % len(kinds)], seed + count // len(kinds)
        count += 1
        with tempfile.TemporaryDirectory() as scratch:
            paths = write(kind, number, Path(scratch))
            reading = read(kind, paths)
            said[kind] |= {line.replace(scratch, "").partition(": ")[2] for line in reading.lines}
            if reading.problem:
                failed += 1
                culprit = paths[min(len(reading.lines), len(paths) - 1)]
                for path in Path(scratch).glob(f"{culprit.name}*"):
                    shutil.move(path, folder)
                print(f"{folder / culprit.name}: {reading.problem}", file=sys.stderr)
    return said, failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="runner", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="for all files together")
    parser.add_argument("--seed", type=int, default=1, help="of the first files")
    parser.add_argument(
        "--only", choices=KINDS, action="append", help="a kind of files; default: all"
    )
    options = parser.parse_args(arguments)
    folder = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR") or tempfile.mkdtemp(prefix="fuzz-")
    said, failed = fuzz(options.only or KINDS, options.seed, options.seconds, Path(folder))
    for kind, sentences in said.items():
        print(f"{kind}: {len(sentences)} sentences")
    print(f"{failed} failed; {folder}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
