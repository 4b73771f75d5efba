"""The command line, `install --help`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from fetch.index import FetchError

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
    text = "folder of downloaded wheels, <sha256>/<name>, which are not fetched"
    flag("--files", type=Path, help=text)
    text = "install nothing: print as JSON which files of URLS to download, as sha256 to name; "
    text += "URLS is a JSON file of sha256 to URLs"
    flag("--wanted_files", type=Path, metavar="URLS", help=text)
    text = "link packages that another install left in the user's cache, and leave these there"
    flag("--share", action="store_true", help=text)
    flag("--purpose", help="what the packages are for, for the first line that is printed")
    flag("--scripts", action="append", metavar="NAME", help="create a program of a package in bin/")
    try:
        parser.parse_args(arguments, request)
        if request.wanted_files:
            print(json.dumps(environment.wanted_files(request)))
        else:
            environment.create(request)
    except (FetchError, InstallError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; nothing was installed", file=sys.stderr)
        return 130
    return 0
