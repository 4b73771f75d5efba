"""Common parts of the commands of `et`: their outcome, and options that several of them take.

A command is a module with two functions: `add_arguments(parser)`, and `command(options)`, which
returns an `Outcome` or raises a BuildError.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from etcli.console import Printer


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command.

    Attributes:
      result: for --json and --save; None: there is none.
      show: prints the result for people.
      code: exit code.
      problems: lines for the standard error output, after all else.
    """

    result: Any
    show: Callable[[Printer], None] = lambda out: None
    code: int = 0
    problems: Sequence[str] = ()


def positive(text: str) -> int:
    """A number of the command line that is at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Adds --data, the data files of a program."""
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="FILE",
        help=".ptd that the program loads; default: those beside it",
    )
