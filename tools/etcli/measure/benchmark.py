"""`prog.benchmark`: how fast a program is on this machine, and where its time goes.

Contract:
`etcli.measure.benchmark --target_flags FILE --target_manifest FILE --target_recipe LABEL …`
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild import BuildError
from etlink import merge, pte, tables
from etlink.amounts import human_bytes
from etlink.container import write_text

from etcli import cli, places, process
from etcli.console import Printer, waiting
from etcli.measure import baseline, language, page, target
from etcli.measure.baseline import Figure
from etcli.measure.target import Target

# Operators that a table lists; the page has more.
_SHOWN = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit code."""
    options = _parser().parse_args(arguments)
    return cli.guarded(lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmark",
        description="Measures a program on this machine, in ExecuTorch's Python runtime: loading, "
        "each method (language models: first token, tokens per second), memory, and the time of "
        "each operator and delegate.",
        epilog="exit codes: 0 measured; 1 slower than --max_slowdown allows; 2 it can't be "
        "measured, or the command line is wrong",
    )
    target.add_arguments(parser)
    parser.add_argument("--repeat", type=cli.positive, default=20, help="runs (%(default)s)")
    parser.add_argument("--warm_up", type=int, default=3, help="runs before those (%(default)s)")
    parser.add_argument(
        "--prompt_tokens", type=cli.positive, default=64, help="of language models (%(default)s)"
    )
    parser.add_argument(
        "--tokens", type=cli.positive, default=32, help="to write after the prompt (%(default)s)"
    )
    parser.add_argument("--no_events", action="store_true", help="leave operators out")
    parser.add_argument("--save", metavar="FILE", help="write all figures there, as JSON")
    parser.add_argument("--baseline", metavar="FILE", help="compare with what --save wrote")
    parser.add_argument("--html", metavar="FILE", help="write a page with plots")
    parser.add_argument(
        "--max_slowdown",
        type=float,
        metavar="RATIO",
        help="fail where a time or a speed is worse than the baseline's by more: 1.2 is 20%%",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.max_slowdown and not options.baseline:
        raise BuildError("--max_slowdown compares with a --baseline, which is not given.")
    before = baseline.read(places.given(options.baseline)) if options.baseline else {}
    given = target.of(options)
    found = measure(given, options)
    made = baseline.figures(found)
    whole = {
        "format": baseline.FORMAT,
        "label": given.label,
        "recipe": given.recipe,
        "machine": machine(),
        "figures": {figure.name: figure.value for figure in made},
        **found,
    }
    text = json.dumps(whole, indent=1, sort_keys=True) + "\n"
    if options.save:
        write_text(places.written(options.save), text)
    if options.html:
        write_text(places.written(options.html), page.of(whole, made, before))
    if options.json:
        print(text, end="")
    else:
        show(whole, made, before, Printer(sys.stdout))
    slow = slower(made, before, options.max_slowdown) if options.max_slowdown else []
    for line in slow:
        print(f"slower: {line}", file=sys.stderr)
    return 1 if slow else 0


def measure(given: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Measures a program.

    Returns:
      What `etcli.measure.measuring` found, with "events" by case, and "file_bytes".

    Raises:
      BuildError: a file is damaged, the runtime refuses or crashes, or the model's code fails.
    """
    program = given.request.program
    if program is None:
        raise BuildError(f"{given.label}: there is no program.")
    work = Path(tempfile.mkdtemp(prefix="benchmark-"))
    try:
        files = list(given.request.program_data)
        data = merge.checked(given.manifest, program, files, work)
        request = {
            "program": str(program),
            "data": str(data) if data else "",
            "cases": _cases(given, program, work),
            "repeat": options.repeat,
            "warm_up": options.warm_up,
            "prompt_tokens": options.prompt_tokens,
            "tokens": options.tokens,
            "etdump": "" if options.no_events else str(work),
        }
        with waiting(f"Measuring {given.label}"):
            found = process.ask("etcli.measure.measuring", request, work, given.label)
        with waiting("Reading events"):
            found["events"] = _events(found, program)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    found["file_bytes"] = sum(p.stat().st_size for p in [program, *files])
    return found


def _cases(given: Target, program: Path, work: Path) -> str:
    """A file with the model's example inputs; empty: tokens are enough for a language model."""
    methods = list(tables.describe_methods(pte.read(program).program))
    constant = [m["name"] for m in methods if not m["inputs"]]
    if language.is_language_model(constant, [m["name"] for m in methods]):
        return ""
    from etcli.measure import examples

    return str(examples.write(given, work))


def _events(found: dict[str, Any], program: Path) -> dict[str, Any]:
    from etcli.measure import events

    return {
        title: events.summary(Path(path), found["cases"][title]["method"], program)
        for title, path in found.pop("etdumps", {}).items()
    }


def machine() -> dict[str, Any]:
    """What the figures are of."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return {"processor": name, "cores": os.cpu_count(), "system": platform.system()}


def slower(made: Sequence[Figure], before: Mapping[str, float], most: float) -> list[str]:
    """Times and speeds that are worse than before by more than a ratio; a line each."""
    found = []
    for figure in made:
        ratio = figure.slowdown(before.get(figure.name, 0.0))
        # The first load is of the disk's cache, and bytes are not slow.
        skipped = figure.unit == "bytes" or figure.name == "load, the first time"
        if ratio is not None and ratio > most and not skipped:
            was = shown(Figure(figure.name, before[figure.name], figure.unit))
            found.append(
                f"{figure.name}: {shown(figure)}, was {was}: {ratio:.2f} times worse, wanted at "
                f"most {most:g}"
            )
    return found


def shown(figure: Figure) -> str:
    """A figure for people: "1.25 ms", "41.3 tokens/s", "1.5 MB"."""
    if figure.unit == "bytes":
        return human_bytes(int(figure.value))
    digits = 1 if figure.value >= 100 else 2 if figure.value >= 1 else 3
    return f"{figure.value:.{digits}f} {figure.unit}"


def show(
    found: Mapping[str, Any], made: Sequence[Figure], before: Mapping[str, float], out: Printer
) -> None:
    """Prints tables."""
    cpu = found["machine"]
    out.line(f"{found['label']}, {found['recipe']}", "bold")
    out.line(f"{cpu['processor']}, {cpu['cores']} cores", "dim")
    out.heading("Figures")
    rows, styles = [], []
    for figure in made:
        old = before.get(figure.name)
        ratio = figure.slowdown(old) if old is not None else None
        rows.append(
            [
                figure.name,
                shown(figure),
                shown(Figure(figure.name, old, figure.unit)) if old is not None else "–",
                changed(figure, old) if old is not None else "–",
            ]
        )
        styles.append("" if ratio is None else "red" if ratio > 1.1 else "")
    if not before:
        rows = [row[:2] for row in rows]
    columns = ["", "now", "baseline", "change"][: 4 if before else 2]
    out.table(columns, rows, numbers=[1, 2, 3][: len(columns) - 1], styles=styles)
    for title, events in found["events"].items():
        _show_events(title, events, out)


def changed(figure: Figure, before: float) -> str:
    """A change in per cent: "+3.1%"."""
    return f"{100 * (figure.value / before - 1):+.1f}%" if before else "–"


def _show_events(title: str, found: Mapping[str, Any], out: Printer) -> None:
    from etcli.measure.events import by_backend

    total = found["total_ms"]
    out.heading(f"{title}: {total:.3f} ms while it is recorded")
    rows = []
    for backend in by_backend(found):
        rows.append(_row(backend["backend"], backend["calls"], backend["ms"], total))
        rows += [
            _row(f"  {one['name']}", one["calls"], one["ms"], total)
            for one in backend["operators"][:_SHOWN]
        ]
    rows += [
        _row(one["name"], one["calls"], one["ms"], total) for one in found["operators"][:_SHOWN]
    ]
    out.table(["delegate or operator", "calls", "ms", "share"], rows, numbers=[1, 2, 3])


def _row(name: str, calls: int, taken: float, total: float) -> list[str]:
    return [name, str(calls), f"{taken:.3f}", f"{100 * taken / total:.1f}%" if total else "–"]


if __name__ == "__main__":
    sys.exit(main())
