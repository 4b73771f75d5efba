"""`et sensitivity`: what the quantization of each layer costs, in exactness and bytes.

`<program>.sensitivity` starts it with the flags that name the program's model and recipe. Nothing
is lowered: the eager model runs with quantized layers.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild import BuildError
from etlink.amounts import human_bytes
from etlink.container import write_text
from etlower import failure, flags, sources
from etlower.progress import Progress

from etcli import paths
from etcli.command import Outcome, positive
from etcli.console import Printer, bar, shortened


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("--target_flags", default="", help=argparse.SUPPRESS)
    parser.add_argument("--text", metavar="FILE", help="measure the perplexity of a UTF-8 text")
    parser.add_argument(
        "--tokens",
        type=positive,
        default=256,
        help="number of the text's tokens to read (%(default)s)",
    )
    parser.add_argument("--tokenizer", metavar="FILE", help="tokenizer.json; default: the model's")
    parser.add_argument(
        "--inputs", metavar="FILE", help=".safetensors with inputs; default: the model's"
    )
    parser.add_argument("--html", metavar="FILE", help="write a page")


def command(options: argparse.Namespace) -> Outcome:
    """Measures the layers of a program's model."""
    if not options.target_flags:
        raise BuildError(
            "et sensitivity needs the program's model.",
            "Run it as: bazel run //x:program.sensitivity",
        )
    files = {n: _existing(getattr(options, n)) for n in ("text", "inputs", "tokenizer")}
    if files["text"] and files["inputs"]:
        raise BuildError("Got --text and --inputs, expected one of them.", "Remove one.")
    words = flags.expand([f"@{options.target_flags}"])
    request = dataclasses.replace(
        flags.parse(["sensitivity", "--output=none", *words]),
        text=files["text"],
        inputs=files["inputs"],
        tokens=options.tokens,
    )
    with tempfile.TemporaryDirectory(prefix="sensitivity-") as work:
        measured = _measured(request, files["tokenizer"], Path(work) / "sources")
    if options.html:
        from etcli.report import sensitivity

        write_text(paths.written(options.html), sensitivity.page(measured))
    return Outcome(measured, lambda out: show(measured, out))


def _existing(text: str | None) -> Path | None:
    return paths.existing(text).absolute() if text else None


def _measured(request: flags.Request, tokenizer: Path | None, tree: Path) -> dict[str, Any]:
    # Upstream's imports warn of their own internals; importing torch itself resets the level.
    importlib.import_module("torch")
    logging.getLogger("torch").setLevel(logging.ERROR)
    from etlower import lower
    from ettune import commands

    progress, done = Progress(), 0
    sources.install(tree, request.sources, request.roots)
    try:
        lower.settle()
        with bar("Measuring layers", 100, unit="%") as advance, progress.stage("measure"):

            def reached(percent: int) -> None:
                nonlocal done
                advance(percent - done)
                done = percent

            return commands.measure(request, tokenizer, reached)
    except Exception as error:
        text = failure.message(error, request.label, progress, tree, None)
        raise BuildError(text.removeprefix("ERROR: ").strip()) from error


def show(result: Mapping[str, Any], out: Printer) -> None:
    """Prints a measurement: the layers, the one that costs most first."""
    out.line(f"{result['label']}, {' or '.join(result['recipes'])}", "bold")
    samples = f"{result['tokens']} tokens of {result['text']}" if result["text"] else "its inputs"
    out.heading(f"Layers, measured with {samples}")
    columns = ["layer", "recipe", "only it", "all but it", "perplexity", "bytes saved"]
    rows = sorted(_rows(result), key=lambda row: row[0])
    out.table(columns, [cells for _, cells in rows], numbers=[2, 3, 4, 5])


def _rows(result: Mapping[str, Any]) -> Sequence[tuple[Any, list[str]]]:
    """A row of cells for each layer and recipe, with what to sort them by."""
    rows = []
    for layer in result["layers"]:
        for entry in (e for e in layer["recipes"] if "only" in e):
            only, ratio = entry["only"], entry["only"]["sqnr_db"]
            perplexity = only["perplexity"]
            cells = [
                shortened(layer["names"][0]),
                entry["recipe"],
                _decibels(ratio),
                _decibels(entry["all_but"]["sqnr_db"]),
                "–" if perplexity is None else f"{perplexity:.3f}",
                human_bytes(layer["bytes"] - entry["bytes"]),
            ]
            rows.append(((ratio is None, ratio or 0.0, cells), cells))
    return rows


def _decibels(ratio: float | None) -> str:
    return "the same" if ratio is None else f"{ratio:.1f} dB"
