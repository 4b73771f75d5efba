"""The command line, `fetch --help`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import find, index, settings


def main(arguments: list[str]) -> int:
    """Prints where files are as JSON; returns 0, or 1 for what a person corrects."""
    parser = argparse.ArgumentParser(
        prog="fetch",
        description="Finds files of packages by hash, where pip's settings lead, and prints what "
        "Bazel downloads. No pip runs, and nothing of a package does.",
    )
    text = "a JSON file: the files to find; find.py describes it"
    parser.add_argument("request", type=Path, help=text)
    options = parser.parse_args(arguments)
    try:
        request = json.loads(options.request.read_text(encoding="utf-8"))
        print(json.dumps(find.find(request, settings.read())))
    except (index.FetchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
