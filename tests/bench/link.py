"""Linking large programs against a plain copy of their bytes: time as a ratio, and peak memory.

    ./bazelw run //tests/bench:link -- --gigabytes 4 --pairs 3 --json /tmp/link.json

The data are synthetic; nothing needs torch. Each pair copies the program's file and links it three
times: embedded, with its weights in a file of their own, and with all of them shared.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from etlink import manifest, pte, schema
from etlink.container import Piece, Segment
from etlink.lowered import Lowered
from etlink.share import share
from etlink.split import split

_BLOB = 64 << 20
_VERSIONS = {"executorch": "1", "python": "3", "torch": "2"}
# Prints the peak of its memory in MiB.
_LINK = """
import resource, sys
from etlink.__main__ import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
sys.exit(code)
"""


def main() -> int:
    """Runs the benchmark; prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="on a large disk")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="link-bench-") as name:
        folder = Path(name)
        program = synthetic_program(folder, options.gigabytes)
        results = measure(folder, program, options.pairs)
    print(f"{options.gigabytes} GiB, median of {options.pairs} pairs; a copy is 1")
    print(f"{'link':<12}{'ratio':>8}{'peak MiB':>10}")
    for kind in results["ratio"]:
        print(f"{kind:<12}{results['ratio'][kind]:>8.2f}{results['peak_mb'][kind]:>10}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return 0


def synthetic_program(folder: Path, gigabytes: int) -> Path:
    """Writes a program of named data, splits it, and shares all of it.

    Returns:
      The program's file; beside it are `lowered` and `foundation.manifest.json`.
    """
    count = (gigabytes << 30) // _BLOB
    source = folder / "source"
    with open(source, "wb") as out:
        for number in range(count):
            out.write(random.Random(number).randbytes(1 << 20) * (_BLOB >> 20))
    program = schema.program_class("ProgramT")()
    plan = schema.program_class("ExecutionPlanT")()
    plan.name = "forward"
    plan.values, plan.inputs, plan.outputs = [], [], []
    plan.chains, plan.operators, plan.delegates, plan.nonConstBufferSizes = [], [], [], [0]
    program.executionPlan = [plan]
    program.constantBuffer, program.backendDelegateData = [], []
    program.mutableDataSegments, program.namedData = [], []
    program.constantSegment = schema.program_class("SubsegmentOffsetsT")()
    for number in range(count):
        table = schema.program_class("NamedDataT")()
        table.key, table.segmentIndex = f"weight{number:04}", number
        program.namedData.append(table)
    segments = [Segment((Piece(_BLOB, path=source, offset=n * _BLOB),)) for n in range(count)]
    path = folder / "program.pte"
    with open(path, "wb") as out:
        pte.write(out, program, segments)
    source.unlink()
    split(path, folder / "lowered", "//bench:program", _VERSIONS)
    data = folder / "foundation.ptd"
    label = "//bench:foundation"
    files = {data.name: share([Lowered(folder / "lowered")], data, label)}
    manifest.write(manifest.beside(data), manifest.Manifest(label=label, files=files))
    data.unlink()
    return path


def measure(folder: Path, program: Path, pairs: int) -> dict[str, dict[str, float]]:
    """Medians of the ratios, and the largest peaks."""
    kinds = {
        "embedded": [],
        "separate": ["--data", folder / "out.ptd"],
        "shared": ["--shared", folder / "foundation.manifest.json"],
    }
    ratios: dict[str, list[float]] = {kind: [] for kind in kinds}
    peaks: dict[str, list[int]] = {kind: [] for kind in kinds}
    for _ in range(pairs):
        copy = folder / "copy.pte"
        start = time.perf_counter()
        shutil.copyfile(program, copy)
        copied = time.perf_counter() - start
        copy.unlink()
        for kind, arguments in kinds.items():
            start = time.perf_counter()
            peaks[kind].append(link(folder, arguments))
            ratios[kind].append((time.perf_counter() - start) / copied)
            for left in folder.glob("out.*"):
                left.unlink()
    return {
        "ratio": {kind: statistics.median(results) for kind, results in ratios.items()},
        "peak_mb": {kind: max(results) for kind, results in peaks.items()},
    }


def link(folder: Path, arguments: list[str | Path]) -> int:
    """Links in a separate process; returns its peak memory in MiB."""
    command = ["--lowered", folder / "lowered", "--program", folder / "out.pte", *arguments]
    done = subprocess.run(
        [sys.executable, "-c", _LINK, *map(str, command)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
