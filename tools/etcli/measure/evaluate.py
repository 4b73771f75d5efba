"""`et evaluate`: how far a program is from its eager model, on a text or on inputs.

`<program>.evaluate` starts it with the flags that name the program and its model.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild import BuildError

from etcli import paths
from etcli.command import Outcome, positive
from etcli.console import Printer
from etcli.measure import target

PRECISIONS = ("bfloat16", "float16", "float32")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    target.add_arguments(parser)
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
    parser.add_argument(
        "--precision",
        action="append",
        default=[],
        choices=PRECISIONS,
        help="also the eager model cast to that; may be repeated",
    )


def command(options: argparse.Namespace) -> Outcome:
    """Compares a program with its eager model."""
    if not options.target_flags:
        raise BuildError(
            "et evaluate needs the program's model.", "Run it as: bazel run //x:program.evaluate"
        )
    if options.text and options.inputs:
        raise BuildError("Got --text and --inputs, expected one of them.", "Remove one.")
    # Before a model is loaded, which takes its time.
    inputs = paths.existing(options.inputs) if options.inputs else None
    text = _read(options.text) if options.text else ""
    tokenizer = paths.existing(options.tokenizer) if options.tokenizer else None
    with tempfile.TemporaryDirectory(prefix="evaluate-") as work:
        program = target.of(options)
        from etcli.measure import evaluation

        spec = program.load_model(Path(work))
        if options.text:
            rows = evaluation.of_text(program, spec, text, tokenizer, options)
        else:
            if inputs:
                spec = evaluation.with_inputs(spec, inputs, program.label)
            rows = evaluation.of_outputs(program, spec, options.precision)
    result = {"label": program.label, "recipe": program.recipe, **rows}
    return Outcome(result, lambda out: show(result, out))


def _read(text: str) -> str:
    path = paths.existing(text)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BuildError(f"{path} is not UTF-8: {error.reason}.", "Convert it.") from error


def show(result: Mapping[str, Any], out: Printer) -> None:
    """Prints an evaluation."""
    out.line(f"{result['label']}, {result['recipe']}", "bold")
    if "perplexity" in result:
        out.heading(f"Perplexity of {result['text']}: {result['tokens']} tokens")
        rows = [
            [row["model"], "–", "–", "–"]
            if "skipped" in row
            else [
                row["model"],
                f"{row['perplexity']:.3f}",
                f"{row['more_percent']:+.2f}%",
                f"{row['same_token_percent']:.1f}%",
            ]
            for row in result["perplexity"]
        ]
        out.table(["model", "perplexity", "to eager", "same token"], rows, numbers=[1, 2, 3])
        _show_skipped(result["perplexity"], out)
        return
    out.heading("Outputs, against the eager model")
    rows = [
        [row["method"], str(row.get("output", "–")), row["model"], "–", "–", "–"]
        if "skipped" in row
        else [
            row["method"],
            str(row["output"]),
            row["model"],
            row["note"] if row["sqnr_db"] is None else f"{row['sqnr_db']:.1f} dB",
            f"{row['largest_difference']:.3g}",
            f"{row['same_class_percent']:.1f}%" if "same_class_percent" in row else "–",
        ]
        for row in result["outputs"]
    ]
    columns = ["method", "output", "model", "SQNR", "largest difference", "same largest element"]
    out.table(columns, rows, numbers=[1, 3, 4, 5])
    _show_skipped(result["outputs"], out)


def _show_skipped(rows: Sequence[Mapping[str, Any]], out: Printer) -> None:
    for row in rows:
        if "skipped" in row:
            where = f", method {row['method']}" if "method" in row else ""
            out.warning(f"{row['model']}{where}: not compared: {row['skipped']}")
