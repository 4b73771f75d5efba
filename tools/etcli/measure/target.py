"""The target behind `<program>.evaluate` and `<program>.benchmark`: a program and its model."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from etbuild import BuildError, ModelSpec
from etlink import pte
from etlower import failure, flags, sources
from etlower.progress import Progress
from runner import runtime, twin

from etcli.console import waiting

_LANGUAGE_MODEL = {"get_max_context_len", "get_max_seq_len", "get_eos_ids"}


@dataclass(frozen=True)
class Target:
    """A program, with the model that it was lowered from.

    Attributes:
      request: model, program and data files.
      manifest: of the program.
      recipe: label of the recipe.
      report: of the program; None: the command does not read it.
      file_bytes: of the .pte and all its .ptd files.
    """

    request: flags.Request
    manifest: Path
    recipe: str
    report: Path | None
    file_bytes: int

    @property
    def label(self) -> str:
        """Of the program."""
        return self.request.label

    @property
    def program(self) -> Path:
        """The .pte file."""
        return _program_of(self.request)

    def open(self) -> runtime.Program:
        """Opens the program.

        Raises:
          BuildError: a file is missing, damaged, or another one than the program was built with;
            or the runtime cannot load the program.
        """
        runtime.check_needs(pte.read(self.program), self.label)
        data = self.request.program_data
        return runtime.Program(self.program, data, self.manifest, name=self.label)

    def load_model(self, work: Path) -> ModelSpec:
        """The eager model.

        Args:
          work: a folder for its sources.

        Raises:
          BuildError: its code fails; the message is what a lowering's would be.
        """
        tree, progress = work / "sources", Progress()
        sources.install(tree, self.request.sources, self.request.roots)
        try:
            with waiting(f"Loading {self.request.model_label}"), progress.stage("load"):
                from etlower import given_inputs, lower, model

                lower.make_deterministic()
                return given_inputs.with_files(model.load_spec(self.request), self.request)
        except Exception as error:
            text = failure.message(error, self.label, progress, tree, None)
            raise BuildError(text.removeprefix("ERROR: ").strip()) from error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that the rule sets, and users do not."""
    for name in ("flags", "manifest", "recipe", "report"):
        parser.add_argument(f"--target_{name}", default="", help=argparse.SUPPRESS)


def of(options: argparse.Namespace) -> Target:
    """The target that the rule names; `options` are as `add_arguments` declares them."""
    import_torch()
    words = flags.expand([f"@{options.target_flags}"])
    request = flags.parse(["lower", "--output=none", *words])
    program = _program_of(request)
    manifest = Path(options.target_manifest).absolute()
    files = [program, *request.program_data]
    note = twin.notice(program, request.label)
    if note:
        print(note, file=sys.stderr)
    size = sum(p.stat().st_size for p in files)
    report = Path(options.target_report).absolute() if options.target_report else None
    return Target(request, manifest, options.target_recipe, report, size)


def import_torch() -> None:
    """Imports torch without the warnings that upstream's imports have of their own internals."""
    # Importing torch itself resets the level.
    importlib.import_module("torch")
    logging.getLogger("torch").setLevel(logging.ERROR)


def _program_of(request: flags.Request) -> Path:
    """The .pte file of a request.

    Raises:
      BuildError: it has none.
    """
    if request.program is None:
        raise BuildError(f"{request.label}: there is no program to run.")
    return request.program


def is_language_model(constants: Iterable[str], methods: Iterable[str]) -> bool:
    """Tells whether a program can be fed with tokens: see docs/reference/tools.md."""
    return set(constants) >= _LANGUAGE_MODEL and bool({"forward", "decode"} & set(methods))
