"""Benchmark: lowering a program by upstream's own functions against the fast path, byte for byte.

`./bazelw run //tests/bench:lowering -- [--program LABEL] [--pairs N] [--json FILE] [--svg FILE]`

Each pair runs the action of the program twice, one-shot: as a fresh process in which nothing is
warm, the stock path first and the fast one first in turn. The ratios are those of the time on the
clock and of the processor's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAM = "//models:llama_xnnpack"
PATHS = ("stock", "fast")
_COLORS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb")


def main() -> None:
    """Runs the pairs; prints and writes their figures."""
    parser = argparse.ArgumentParser(prog="lowering", description=__doc__)
    parser.add_argument("--program", default=PROGRAM, help=f"an et_program; default {PROGRAM}")
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--svg", type=Path, help="file to draw the seconds of each stage to")
    options = parser.parse_args()
    workspace = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    root, command, words = _action(workspace, options.program)
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="bench", dir="/var/tmp") as scratch:
        for number in range(options.pairs):
            for path in PATHS if number % 2 == 0 else PATHS[::-1]:
                folder = Path(scratch) / f"{number}.{path}"
                runs.append(_timed(root, command, words, path, folder))
                print(_line(runs[-1]), flush=True)
    found = _figures(options.program, runs)
    print(f"stock/fast: {found['ratio']:.2f} ({found['cpu_ratio']:.2f} of the processor's time)")
    print(f"peak memory fast/stock: {found['memory_ratio']:.2f}")
    print("same bytes" if found["same_bytes"] else "OTHER BYTES")
    here = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    if options.json:
        (here / options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.svg:
        (here / options.svg).write_text(_drawn(runs), encoding="utf-8")
    sys.exit(0 if found["same_bytes"] else 1)


def _action(workspace: Path, program: str) -> tuple[Path, list[str], list[str]]:
    """The execution root, the tool's command line and the lines of the request's file."""
    bazel = str(workspace / "bazelw")
    # What the action reads must be there; its own output comes from a cache where there is one.
    _run([bazel, "build", program], workspace)
    question = f'mnemonic("EtLower", deps({program}))'
    answer = json.loads(_run([bazel, "aquery", "--output=jsonproto", question], workspace))
    actions = answer.get("actions", [])
    if len(actions) != 1:
        sys.exit(f"{program}: expected one action EtLower, found {len(actions)}.")
    # The words before the command start a worker; those behind it are the request.
    arguments = actions[0]["arguments"]
    start = arguments.index("lower")
    command, words = arguments[:start], arguments[start:]
    environment = {v["key"]: v.get("value", "") for v in actions[0].get("environmentVariables", [])}
    settings = [f"{name}={value}" for name, value in sorted(environment.items())]
    root = Path(_run([bazel, "info", "execution_root"], workspace).strip())
    return root, ["env", "-i", *settings, *command], words


def _timed(
    root: Path, command: list[str], words: list[str], path: str, folder: Path
) -> dict[str, Any]:
    """Runs the action once with one of the paths; what it took."""
    folder.mkdir()
    own = {"--output": folder / "lowered", "--facts": folder / "facts.json"}
    lines = [word for word in words if word.split("=")[0] not in {*own, "--lowering"}]
    lines += [f"{flag}={value}" for flag, value in own.items()] + [f"--lowering={path}"]
    request = folder / "request"
    request.write_text("\n".join(lines) + "\n", encoding="utf-8")
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    _run([*command, f"@{request}"], root)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    facts = json.loads(own["--facts"].read_text(encoding="utf-8"))
    return {
        "path": path,
        "seconds": seconds,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_memory_bytes": facts["peak_memory_bytes"],
        "stages": {stage["name"]: stage["seconds"] for stage in facts["stages"]},
        "stood_aside": facts["path"]["stood_aside"],
        "sha256": _digest(own["--output"]),
    }


def _digest(lowered: Path) -> str:
    """Of all files of a lowered program: its tables, its index and its weights."""
    total = hashlib.sha256()
    for file in sorted(path for path in lowered.rglob("*") if path.is_file()):
        with open(file, "rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        total.update(f"{file.relative_to(lowered)} {found}\n".encode())
    return total.hexdigest()


def _figures(program: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    by = {path: [run for run in runs if run["path"] == path] for path in PATHS}

    def ratio(key: str) -> float:
        pairs = zip(by["stock"], by["fast"], strict=True)
        return statistics.median(stock[key] / fast[key] for stock, fast in pairs)

    return {
        "program": program,
        "ratio": ratio("seconds"),
        "cpu_ratio": ratio("cpu_seconds"),
        "memory_ratio": 1 / ratio("peak_memory_bytes"),
        "same_bytes": len({run["sha256"] for run in runs}) == 1,
        "runs": runs,
    }


def _line(run: dict[str, Any]) -> str:
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in run["stages"].items())
    return (
        f"{run['path']}: {run['seconds']:.1f} s, {run['cpu_seconds']:.1f} s of the processor's, "
        f"{run['peak_memory_bytes'] >> 20} MiB ({stages})"
    )


def _drawn(runs: list[dict[str, Any]]) -> str:
    """A bar for each run, its stages in turn, as an SVG picture."""
    names = list(dict.fromkeys(name for run in runs for name in run["stages"]))
    longest = max(sum(run["stages"].values()) for run in runs)
    parts = []
    for row, run in enumerate(runs):
        left, top = 60.0, 10 + 24 * row
        parts.append(f'<text x="4" y="{top + 14}">{run["path"]}</text>')
        for name, seconds in run["stages"].items():
            width, color = 640 * seconds / longest, _COLORS[names.index(name) % len(_COLORS)]
            title = f"<title>{name}: {seconds:.1f} s</title>"
            place = f'x="{left:.1f}" y="{top}" width="{width:.1f}" height="18"'
            parts.append(f'<rect {place} fill="{color}">{title}</rect>')
            left += width
        parts.append(f'<text x="{left + 4:.1f}" y="{top + 14}">{run["seconds"]:.0f} s</text>')
    for number, name in enumerate(names):
        x, y = 60 + 80 * number, 24 * len(runs) + 18
        color = _COLORS[number % len(_COLORS)]
        parts.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{color}"/>')
        parts.append(f'<text x="{x + 14}" y="{y + 9}">{name}</text>')
    size = f'width="780" height="{24 * len(runs) + 40}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" '
    return head + 'font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[:12])} … failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
