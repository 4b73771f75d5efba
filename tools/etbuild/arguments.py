"""Command lines that rules write: values hold any character that a label or a path may hold."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any
from urllib.parse import unquote


class ToolParser(argparse.ArgumentParser):
    """A parser for options with separate values, also values that begin with a dash.

    Only known options are options: in `--program -net x.pte`, `-net` is a value. There are no
    abbreviations.

    Args:
      **options: as of argparse.ArgumentParser.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def _parse_optional(self, arg_string: str) -> Any:
        name, _, _ = arg_string.partition("=")
        known = self._option_string_actions
        return super()._parse_optional(arg_string) if {name, arg_string} & known.keys() else None


def split_pair(argument: str) -> tuple[str, Path]:
    """A name and a file out of "NAME=FILE", which `pair` of //toolchains/python:paths.bzl writes.

    Example:

        split_pair("_main/a%3D9.ckpt=a=9.ckpt")  # ("_main/a=9.ckpt", Path("a=9.ckpt"))
    """
    name, _, file = argument.partition("=")
    return unquote(name), Path(file)
