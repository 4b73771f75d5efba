"""`et divergence`: where a program's numbers part from the eager model's, by module.

`<program>.divergence` starts it with the flags that name the program, its model and its recipe. The
work is done by `etlower.divergence`.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild import BuildError
from etlink.container import write_text

from etcli import paths
from etcli.command import Outcome
from etcli.console import Printer
from etcli.measure import against, target

# Rows of a table; JSON and the page have all.
_SHOWN = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    target.add_arguments(parser)
    parser.add_argument(
        "--inputs",
        action="append",
        default=[],
        metavar="FILE",
        help=".npy, .npz, .safetensors, .wav, an image, or a folder of them; may be repeated; "
        "default: the model's example and test inputs",
    )
    parser.add_argument("--method", action="append", default=[], help="only this method")
    parser.add_argument(
        "--drop",
        type=float,
        default=10.0,
        metavar="DB",
        help="a module is named where its values are worse by more than what they are computed "
        "from (%(default)s dB)",
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with the tree of modules")
    parser.add_argument(
        "--reduce",
        metavar="FOLDER",
        help="write a package with the smallest module that has the fault, its inputs, and a test "
        "that fails",
    )
    parser.add_argument(
        "--against",
        metavar="FILE",
        help="the same program, built by another exporter: what --save wrote of it, or its .pte "
        "file; show what changed since then",
    )
    # Of the action: its log is for what is wrong.
    parser.add_argument("--target_quiet", action="store_true", help=argparse.SUPPRESS)


def command(options: argparse.Namespace) -> Outcome:
    """Compares the eager model with the exported, quantized and lowered program, by module."""
    if not options.target_flags:
        raise BuildError(
            "et divergence needs the program's model and recipe.",
            "Run it as: bazel run //x:program.divergence",
        )
    files = [paths.existing(file).absolute() for file in options.inputs]
    if options.drop <= 0:
        raise BuildError(f"--drop: got {options.drop:g}, expected more than 0 dB.")
    before, other = _of_other(options.against)
    reduce = paths.written(options.reduce) if options.reduce else None
    page = paths.written(options.html) if options.html else None
    with tempfile.TemporaryDirectory(prefix="divergence-") as work:
        program = target.of(options)
        from etcli.measure import diverging
        from etcli.measure.built import Built

        told = _silent if options.target_quiet else _told
        beside = paths.report_beside
        result, of_other = diverging.compare(
            program,
            files,
            options.method,
            options.drop,
            Path(work),
            told,
            reduce,
            Built(other.name, other, paths.data_beside(other), None, beside(other))
            if other
            else None,
        )
    before = against.of(of_other) if other else before
    if before:
        result["against"] = against.changes(before, against.of(result))
    if page:
        from etcli.report import divergence

        rows = against.rows(result["against"]) if before else []
        write_text(page, divergence.page(result, against.COLUMNS, rows))
    return Outcome(result, _silent if options.target_quiet else lambda out: show(result, out))


def _of_other(name: str) -> tuple[against.Divergence | None, Path | None]:
    """Reads the value of --against: a saved divergence, or the path of a program."""
    if not name:
        return None, None
    path = paths.existing(name).absolute()
    return (None, path) if path.suffix == ".pte" else (against.read(path), None)


def _silent(_: Any) -> None:
    """Says nothing."""


def _told(step: str) -> None:
    print(f"{step} …", file=sys.stderr)


def show(result: Mapping[str, Any], out: Printer) -> None:
    """Prints a table for each method."""
    out.line(f"{result['label']}, {result['recipe']}", "bold")
    for name, method in result["methods"].items():
        _show_method(name, method, result["drop_db"], out)
    if "against" in result:
        against.show(result["against"], out)
    if "reduced" in result:
        _show_reduced(result["reduced"], out)


def _show_reduced(reduced: Mapping[str, str], out: Printer) -> None:
    module = reduced["module"] or "the whole model"
    out.line(f"Written to {reduced['folder']}: {module}, with a test that fails.", "bold")


def _show_method(name: str, method: Mapping[str, Any], drop: float, out: Printer) -> None:
    columns = method["columns"]
    count = method["samples"]
    out.heading(f"{name}: against the eager model, {count} input{'' if count == 1 else 's'}")
    rows = [_row(module, columns) for module in method["modules"][:_SHOWN]]
    outputs = ["outputs", *(_cell(method["outputs"].get(column)) for column in columns)]
    rows.append(outputs)
    if "tapped" in method["outputs"]:
        blank = [""] * (len(columns) - 1)
        rows.append(["with taps", *blank, _cell(method["outputs"]["tapped"])])
    out.table(["module", *columns], rows, numbers=range(1, len(columns) + 1))
    if len(method["modules"]) > _SHOWN:
        out.line(f"… and {len(method['modules']) - _SHOWN} more: see --html or --json", "dim")
    for note in method["notes"]:
        out.warning(note)
    out.line(conclusion(method, drop), "bold")


def _row(module: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    indent = "  " * module["name"].count(".")
    cells = [_cell(module.get(column)) for column in columns]
    return [indent + (module["name"] or "the model"), *cells]


def _cell(compared: Mapping[str, Any] | None) -> str:
    if compared is None:
        return "–"
    largest = compared["largest_difference"]
    difference = "" if largest is None else f" ({largest:.2g})"
    return f"{shown(compared)}{difference}" if difference or compared["note"] else "–"


def shown(compared: Mapping[str, Any]) -> str:
    """A ratio for people."""
    ratio = compared["sqnr_db"]
    return compared["note"] if ratio is None else f"{ratio:.1f} dB"


def conclusion(method: Mapping[str, Any], drop: float) -> str:
    """A sentence that names the first module that falls, or says that there is none."""
    first = method["first"]
    if not first:
        return f"No module is worse than what it is computed from by more than {drop:g} dB."
    where = f"module {first['module']}" if first["module"] else "the model's own operators"
    if first["together"]:
        where += f", computed in one with {', '.join(first['together'])}"
    line = f", {first['line']}" if first["line"] else ""
    got = -math.inf if first["sqnr_db"] is None else first["sqnr_db"]
    ratio = "far off" if got == -math.inf else f"{got:.1f} dB"
    return (
        f"{first['stage']}: the numbers part at {where} ({first['operator'] or 'left out'}{line}): "
        f"{ratio}, {first['before_db']:.1f} dB before it."
    )
