"""`et benchmark`: how fast a program is on this machine, and where its time goes.

`<program>.benchmark` starts it with the flags that name the program and its model, whose example
inputs it takes. A bare .pte runs on random inputs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild import BuildError
from etlink import process, pte, tables
from etlink.amounts import human_bytes, human_percent
from etlink.container import write_text

from etcli import paths
from etcli.command import Outcome, add_data_option, positive
from etcli.console import Printer, waiting
from etcli.measure import app, baseline, modules, target
from etcli.measure.baseline import Figure
from etcli.measure.events import by_backend

# Operators that a table lists; the page has more.
_SHOWN = 12
# Of the method's time in per cent: a module that a table lists; the page has all.
_SMALLEST_SHARE = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    target.add_arguments(parser)
    app.add_arguments(parser)
    parser.add_argument("file", metavar="FILE", nargs="?", help=".pte file; default: the target's")
    add_data_option(parser)
    parser.add_argument("--repeat", type=positive, default=20, help="measured runs (%(default)s)")
    parser.add_argument("--warm_up", type=int, default=3, help="warm-up runs (%(default)s)")
    parser.add_argument(
        "--prompt_tokens",
        type=positive,
        default=64,
        help="language models: tokens of the prompt (%(default)s)",
    )
    parser.add_argument(
        "--tokens",
        type=positive,
        default=32,
        help="language models: tokens of the answer (%(default)s)",
    )
    parser.add_argument(
        "--no_events", action="store_true", help="skip the run that measures operators"
    )
    parser.add_argument(
        *("--baseline", "--compare"),
        metavar="FILE",
        help="compare with a file that --save wrote, module by module, too",
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="report (JSON) of the .pte, for the time of each module; default: the target's",
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with plots")
    parser.add_argument(
        "--max_slowdown",
        type=float,
        metavar="RATIO",
        help="fail if a value is worse than the baseline's by more: 1.2 is 20%%",
    )


def command(options: argparse.Namespace) -> Outcome:
    """Measures a program; exit code 1: slower than --max_slowdown allows."""
    if options.max_slowdown and not options.baseline:
        raise BuildError("--max_slowdown compares with a --baseline: none given.")
    before = baseline.read(paths.existing(options.baseline)) if options.baseline else None
    of_app = app.App(options) if options.target_app else None
    if of_app and options.dry_run:
        lines = of_app.commands()
        return Outcome({"commands": lines}, lambda out: out.line("\n".join(lines)))
    if options.file and (of_app or options.target_flags):
        raise BuildError(f"Got {options.file}, expected no file beside the target's program.")
    if not of_app and (options.dry_run or options.program):
        raise BuildError("--dry_run and --program are for the benchmark of an app: found none.")
    work = Path(tempfile.mkdtemp(prefix="benchmark-"))
    try:
        if of_app:
            measured = of_app.measure(work, machine)
        else:
            measured = (
                _of_target(options, work) if options.target_flags else _of_file(options, work)
            )
    finally:
        shutil.rmtree(work, ignore_errors=True)
    figures = baseline.figures(measured, before.figures if before else {})
    if before:
        for title, events in measured["events"].items():
            if "modules" in events:
                modules.compare(events["modules"], before.modules(title))
    result = {
        "format": baseline.FORMAT,
        "machine": machine(),
        "figures": {figure.name: figure.value for figure in figures},
        **measured,
    }
    if options.html:
        from etcli.measure import page

        write_text(paths.written(options.html), page.of(result, figures))
    slow = slower(figures, options.max_slowdown) if options.max_slowdown else []
    problems = [f"slower: {line}" for line in slow]
    return Outcome(result, lambda out: show(result, figures, out), 1 if slow else 0, problems)


def _of_target(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Measures the program that the rule names, on its model's example inputs."""
    given = target.of(options)

    def cases() -> str:
        from etlower import expected
        from etlower.outputs import leaves

        examples = [
            expected.Case(name, 0, False, expected.plain(leaves(m.example_inputs), name), ())
            for name, m in given.load_model(work).methods.items()
        ]
        expected.write(work / "examples.safetensors", examples)
        return str(work / "examples.safetensors")

    report = _report(options) or given.report
    files = (given.program, given.manifest, given.request.program_data)
    measured = _measure(given.label, files, options, work, cases, report)
    return {**measured, "recipe": given.recipe, "file_bytes": given.file_bytes}


def _report(options: argparse.Namespace) -> Path | None:
    return paths.existing(options.report).absolute() if options.report else None


def _of_file(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Measures a .pte on random inputs."""
    if not options.file:
        raise BuildError(
            "et benchmark needs a .pte file.", "Or run it as: bazel run //x:program.benchmark"
        )
    program = paths.existing(options.file).absolute()
    files = [paths.existing(p).absolute() for p in options.data] or paths.data_beside(program)
    named = (program, paths.manifest_beside(program), files)
    measured = _measure(program.name, named, options, work, str, _report(options))
    size = sum(p.stat().st_size for p in [program, *files])
    return {**measured, "recipe": "", "file_bytes": size}


def _measure(
    label: str,
    files: tuple[Path, Path | None, Sequence[Path]],
    options: argparse.Namespace,
    work: Path,
    cases: Callable[[], str],
    report: Path | None,
) -> dict[str, Any]:
    """Asks `etcli.measure.measuring`, which says what is in its answer, and reads the events.

    Args:
      label: of the program, or the file's name.
      files: the .pte file, its manifest (None: there is none), and its data files.
      options: the command line.
      work: a folder for files.
      cases: writes a file of inputs and returns its path; not called for language models, for which
        tokens are enough. Empty: inputs are filled.
      report: of the program; None: there is none.
    """
    program, manifest, data = files
    methods = list(tables.describe_methods(pte.read(program).program))
    names = [m["name"] for m in methods]
    constant = [m["name"] for m in methods if not m["inputs"]]
    is_language_model = target.is_language_model(constant, names)
    request = {
        "program": program,
        "data": [path.absolute() for path in data],
        "manifest": manifest or "",
        "is_language_model": is_language_model,
        "cases": "" if is_language_model else cases(),
        "methods": [name for name in names if name not in constant] or names,
        "events": "" if options.no_events else work,
        **{
            name: getattr(options, name)
            for name in ("prompt_tokens", "repeat", "tokens", "warm_up")
        },
    }
    with waiting(f"Measuring {label}"):
        measured = process.ask("etcli.measure.measuring", request, work, label)
    recorded = {
        title: {"method": measured["cases"][title]["method"], "file": file}
        for title, file in measured["events"].items()
    }
    if recorded:
        asked = {"program": program, "cases": recorded, "report": report or ""}
        with waiting(f"Reading the events of {label}"):
            events = process.ask("etcli.measure.recorded", asked, work, label, torch=True)
        measured["events"] = events
    return {"label": label, **measured}


def machine() -> dict[str, Any]:
    """The machine of the figures."""
    name = _processor() or platform.processor() or platform.machine()
    return {"processor": name, "cores": os.cpu_count(), "system": platform.system()}


def _processor() -> str:
    """The processor's name as its system calls it; empty: unknown."""
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        with contextlib.suppress(OSError):
            return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""


def slower(figures: Sequence[Figure], most: float) -> list[str]:
    """Times and speeds that are worse than before by more than a ratio; a line each."""
    lines = []
    for figure in figures:
        ratio = figure.slowdown
        # The first load is of the disk's cache, and bytes are not slow.
        skipped = figure.unit == "bytes" or figure.name == "load, the first time"
        if ratio is not None and ratio > most and not skipped:
            lines.append(
                f"{figure.name}: {figure.now}, was {figure.was}: got {ratio:.2f} times worse, "
                f"expected at most {most:g}"
            )
    return lines


def show(result: Mapping[str, Any], figures: Sequence[Figure], out: Printer) -> None:
    """Prints tables."""
    cpu = result["machine"]
    out.line(", ".join(filter(None, (result["label"], result["recipe"]))), "bold")
    out.line(cpu["processor"] + (f", {cpu['cores']} cores" if cpu["cores"] else ""), "dim")
    out.heading("Figures")
    rows = [[f.name, f.now, f.was or "–", f.change or "–"] for f in figures]
    styles = ["red" if (f.slowdown or 1.0) > 1.1 else "" for f in figures]
    columns = ["", "now", "baseline", "change"]
    if all(figure.before is None for figure in figures):
        columns, rows = columns[:2], [row[:2] for row in rows]
    out.table(columns, rows, numbers=range(1, len(columns)), styles=styles)
    for title, events in result["events"].items():
        _show_events(title, events, out)
        if "modules" in events:
            _show_modules(title, events["modules"], events["total_ms"], out)


def _show_events(title: str, events: Mapping[str, Any], out: Printer) -> None:
    total = events["total_ms"]

    def row(name: str, timing: Mapping[str, Any]) -> list[str]:
        share = human_percent(100 * timing["ms"] / total if total else None)
        return [name, str(timing["calls"]), f"{timing['ms']:.3f}", share]

    out.heading(f"{title}: {total:.3f} ms while events are recorded")
    rows = []
    for backend in by_backend(events):
        rows.append(row(backend["backend"], backend))
        rows += [row(f"  {inner['name']}", inner) for inner in backend["operators"][:_SHOWN]]
    rows += [row(operator["name"], operator) for operator in events["operators"][:_SHOWN]]
    out.table(["delegate or operator", "calls", "ms", "share"], rows, numbers=[1, 2, 3])


def _show_modules(title: str, of: Mapping[str, Any], total: float, out: Printer) -> None:
    """The modules that take the most time, as a tree, and those that take longer than before."""
    rows = []
    for node in of["tree"]:
        share = 100 * node["ms"] / total if total else 0.0
        if node["name"] and share >= _SMALLEST_SHARE:
            indent = "  " * node["name"].count(".")
            size = human_bytes(node["bytes"]) if node["bytes"] else "–"
            rows.append([indent + node["name"], f"{node['ms']:.3f}", human_percent(share), size])
    out.heading(f"{title}: by module")
    if rows:
        out.table(["module", "ms", "share", "bytes"], rows, numbers=[1, 2, 3])
    for note in modules.notes(of):
        out.line(note, "dim")
    slow = modules.slower(of)[:_SHOWN]
    if slow:
        out.heading(f"{title}: slower, by module")
        rows = [
            [
                node["name"] or modules.WHOLE,
                f"{node['own_ms']:.3f}",
                f"{node['before_own_ms']:.3f}",
                f"{node['own_ms'] - node['before_own_ms']:+.3f}",
            ]
            for node in slow
        ]
        out.table(["module's own operators", "ms", "baseline", "change"], rows, numbers=[1, 2, 3])
