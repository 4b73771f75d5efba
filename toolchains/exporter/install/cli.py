"""The command line, `install --help`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import environment, files
from .errors import InstallError

# The exit code where files are missing that `--needed` lists.
MISSING_FILES = 3


def main(arguments: list[str]) -> int:
    """Installs an environment; its exit code: 0 done, 1 something that a person has to correct.

    MISSING_FILES: files that `--needed` lists.
    """
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
    flag("--lite", action="store_true", help="create lite/, for torch-free tools")
    text = "a lock of the environment that this one is a layer of"
    flag("--base_locks", action="append", type=Path, help=text)
    flag("--files", type=Path, help="folder of wheels, <package>/<name>")
    text = "install nothing: print as JSON the packages whose wheels are needed, with their hashes"
    flag("--needed", action="store_true", help=text)
    text = "link packages that another install left in the user's cache, and leave these there"
    flag("--share", action="store_true", help=text)
    flag("--purpose", help="what the packages are for, for the first line that is printed")
    flag("--scripts", action="append", metavar="NAME", help="create a program of a package in bin/")
    try:
        parser.parse_args(arguments, request)
        if request.needed:
            print(json.dumps(environment.needed(request)))
        else:
            environment.create(request)
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return MISSING_FILES if isinstance(error, files.MissingFilesError) else 1
    except KeyboardInterrupt:
        print("error: interrupted; nothing was installed", file=sys.stderr)
        return 130
    return 0
