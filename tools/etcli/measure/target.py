"""What the companions of an et_program are started with."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from etexport import flags


@dataclass(frozen=True)
class Target:
    """A program, with the model that it was made from.

    Attributes:
      request: model, program and data files, for etexport.
      manifest: the program's.
      recipe: label of the recipe.
    """

    request: flags.Request
    manifest: Path
    recipe: str

    @property
    def label(self) -> str:
        """Of the program."""
        return self.request.label


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what the rule gives; people don't."""
    for name in ("flags", "manifest", "recipe"):
        parser.add_argument(f"--target_{name}", required=True, help=argparse.SUPPRESS)


def of(options: argparse.Namespace) -> Target:
    """The target that the rule named."""
    words = flags.expand([f"@{options.target_flags}"])
    request = flags.parse(["lower", "--output=none", *words])
    return Target(request, Path(options.target_manifest).absolute(), options.target_recipe)
