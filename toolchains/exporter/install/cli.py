"""The command line, `install --help`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import environment
from .errors import InstallError


def main(arguments: list[str]) -> int:
    """Installs an environment; its exit code: 0 done, 1 something that a person has to correct."""
    parser = argparse.ArgumentParser(
        prog="install",
        description="Installs a hermetic Python environment: python/, site-packages/, lite/, bin/ "
        "and environment.json. Flags named <x>s may be given several times.",
    )
    request = environment.Request()
    flag = parser.add_argument
    flag("--locks", action="append", required=True, type=Path, help="a lock of packages")
    flag("--output", required=True, type=Path, help="folder of the environment")
    flag("--python", help="the interpreter to copy; default: the one that runs this")
    text = "an index of CPU builds of torch, unless pip's own settings have one"
    flag("--torch_index", metavar="URL", help=text)
    flag("--lite", action="store_true", help="create lite/, for torch-free tools")
    text = "a lock of the environment that this one is a layer of"
    flag("--base_locks", action="append", type=Path, help=text)
    flag("--scripts", action="append", metavar="NAME", help="create a program of a package in bin/")
    try:
        environment.create(parser.parse_args(arguments, request))
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; nothing was installed", file=sys.stderr)
        return 130
    return 0
