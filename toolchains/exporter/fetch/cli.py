"""The command line, `fetch --help`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import index, settings, tags


def main(arguments: list[str]) -> int:
    """Fetches a file and prints where it is as JSON; returns 0, or 1 for what a person corrects."""
    parser = argparse.ArgumentParser(
        prog="fetch",
        description="Fetches a file of a package by hash, from where pip's settings lead. "
        "Nothing of the package runs.",
    )
    flag = parser.add_argument
    flag("--requirement", required=True, metavar="NAME==VERSION")
    flag("--sha256", action="append", required=True, help="of the file; may be given again")
    flag("--source", action="store_true", help="the source archive, not the wheel")
    flag("--platform", default="", help="platform tag of the wheel; default: this machine's")
    flag("--output", required=True, type=Path, help="folder to put it in")
    options = parser.parse_args(arguments)
    name, _, version = options.requirement.partition("==")
    order = None if options.source else tags.order(tags.platforms(options.platform))
    wanted = index.Wanted(name, version, frozenset(options.sha256), order)
    try:
        path = index.Index(settings.read()).fetch(wanted, options.output).absolute()
        entry = {"path": str(path), "sha256": index.sha256_of(path), "url": path.as_uri()}
        print(json.dumps(entry))
    except (index.FetchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
