"""The command line of one request; the contract between the rules and the exporter."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from etbuild.arguments import split_pair
from etbuild.errors import BuildError

COMMANDS = (
    "lower",
    "etrecord",
    "expect",
    "bundle",
    "placeholder",
    "adapt",
    "sensitivity",
    "train",
)


@dataclass(frozen=True)
class Request:
    """A command of the exporter, with its arguments.

    Attributes:
      command: one of `COMMANDS`.
      label: of the program, for messages.
      model_label: of the model, for messages.
      output: the directory or file to write.
      timings: JSON file to write what depends on the machine to: seconds, memory, accuracy.
      entry_point: "module:function".
      sources: path in the workspace ("_main/models/llama.py") to file: what may be imported.
      roots: folders of such paths that go on the import path.
      data: path in the workspace to file, for ModelContext.file.
      placeholders: path in the workspace of an adapter's file to its placeholder (adapt).
      recipe_data: path in the workspace to file, for RecipeContext.file.
      arguments: for ModelContext.args.
      methods: the methods that become part of the program; empty: all.
      recipe: a tree: {"label", "builder", "options", "base", "recipes", "data", "overrides"}; an
        override has a "pattern" of layers and their "recipe".
      quantize: "recipe", "none": its quantization is left out, or "qat": with the state of a
        trained checkpoint.
      trained_checkpoint: with "qat": the state_dict of the module that was trained, or None.
      training: "module:function" that trains (train).
      calibration: inputs for static quantization (.safetensors), or None: the model's own.
      emulated: whether the program runs in place of the device's, in an emulator.
      lowering: "fast", or "stock": without the fast path (etfast).
      program: the linked .pte (bundle).
      program_data: the linked .ptd files (evaluate and benchmark).
      expected: what the eager model gives (bundle): a file of `expected.py`.
      inputs: what to measure with (sensitivity): .safetensors, or None: the model's inputs.
      test_inputs: files with inputs to compare on (expect, evaluate, divergence).
      preprocessing: how images of these become inputs.
      only_test_inputs: whether they replace those of the model's code.
      text: what to measure with: a text that a language model predicts, or None.
      tokens: of the text that are read.
    """

    command: str
    label: str
    model_label: str
    output: Path
    timings: Path | None
    entry_point: str
    sources: dict[str, Path]
    roots: tuple[str, ...]
    data: dict[str, Path]
    placeholders: dict[str, Path]
    recipe_data: dict[str, Path]
    arguments: dict[str, str]
    methods: tuple[str, ...]
    recipe: dict[str, Any]
    quantize: str
    trained_checkpoint: Path | None
    training: str
    calibration: Path | None
    emulated: bool
    lowering: str
    program: Path | None
    program_data: tuple[Path, ...]
    expected: Path | None
    inputs: Path | None
    test_inputs: tuple[Path, ...]
    preprocessing: dict[str, str]
    only_test_inputs: bool
    text: Path | None
    tokens: int


MAIN = "_main/"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BuildError(f"The exporter was started with unknown flags: {message}.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="etlower", allow_abbrev=False)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--label", required=True)
    parser.add_argument("--model_label", default="")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--timings", type=Path)
    parser.add_argument("--entry_point", default="")
    for name in ("source", "data", "placeholder", "recipe_data"):
        parser.add_argument(f"--{name}", action="append", default=[], metavar="NAME=VALUE")
    for name in ("root", "method"):
        parser.add_argument(f"--{name}", action="append", default=[])
    parser.add_argument("--args", default="{}", help="JSON object of strings")
    parser.add_argument("--recipe", default="{}", help="JSON: a tree of recipes")
    parser.add_argument("--quantize", choices=("recipe", "none", "qat"), default="recipe")
    parser.add_argument("--trained_checkpoint", type=Path)
    parser.add_argument("--training", default="")
    parser.add_argument("--calibration", type=Path)
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--lowering", choices=("fast", "stock"), default="fast")
    parser.add_argument("--program", type=Path)
    parser.add_argument("--program_data", type=Path, action="append", default=[])
    for name in ("expected", "inputs", "text"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--test_input", type=Path, action="append", default=[])
    parser.add_argument("--preprocessing", default="{}", help="JSON object of strings")
    parser.add_argument("--only_test_inputs", action="store_true")
    parser.add_argument("--tokens", type=int, default=256)
    return parser


def parse(arguments: Sequence[str]) -> Request:
    """Reads a request's command line.

    Raises:
      BuildError: an unknown flag.
    """
    raw = _parser().parse_args(list(arguments))
    return Request(
        command=raw.command,
        label=raw.label,
        model_label=raw.model_label or raw.label,
        output=raw.output.absolute(),
        timings=raw.timings.absolute() if raw.timings else None,
        entry_point=raw.entry_point,
        sources=_paths(raw.source),
        roots=tuple(raw.root),
        data=_paths(raw.data),
        placeholders=_paths(raw.placeholder),
        recipe_data=_paths(raw.recipe_data),
        arguments=json.loads(raw.args),
        methods=tuple(raw.method),
        recipe=json.loads(raw.recipe),
        quantize=raw.quantize,
        trained_checkpoint=raw.trained_checkpoint.absolute() if raw.trained_checkpoint else None,
        training=raw.training,
        calibration=raw.calibration.absolute() if raw.calibration else None,
        emulated=raw.emulated,
        lowering=raw.lowering,
        program=raw.program.absolute() if raw.program else None,
        program_data=tuple(p.absolute() for p in raw.program_data),
        expected=raw.expected.absolute() if raw.expected else None,
        inputs=raw.inputs.absolute() if raw.inputs else None,
        test_inputs=tuple(path.absolute() for path in raw.test_input),
        preprocessing=json.loads(raw.preprocessing),
        only_test_inputs=raw.only_test_inputs,
        text=raw.text.absolute() if raw.text else None,
        tokens=raw.tokens,
    )


def expand(arguments: Sequence[str]) -> list[str]:
    """Replaces `@FILE` by the file's lines, as Bazel's multiline parameter files have them."""
    expanded: list[str] = []
    for argument in arguments:
        if argument.startswith("@"):
            # Not splitlines, which also splits at characters that a value may hold.
            lines = Path(argument[1:]).read_bytes().decode("utf-8").split("\n")
            expanded.extend(lines if lines[-1] else lines[:-1])
        else:
            expanded.append(argument)
    return expanded


def _paths(items: Sequence[str]) -> dict[str, Path]:
    # Paths on disk are relative to where the request runs; model code may change directory.
    return {name: path.absolute() for name, path in map(split_pair, items)}
