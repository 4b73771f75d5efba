"""EtLink: links a lowered program into a .pte, and a .ptd if asked for.

Contract: `etlink --lowered DIR --program OUT.pte [--data OUT.ptd] [--summary OUT.json]`
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild.errors import BuildError

from etlink.link import link
from etlink.lowered import Lowered


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the linker; returns the exit code."""
    parser = argparse.ArgumentParser(prog="etlink", description=__doc__)
    parser.add_argument("--lowered", type=Path, required=True, help="directory of EtLower")
    parser.add_argument("--program", type=Path, required=True, help=".pte to write")
    parser.add_argument("--data", type=Path, help=".ptd to write the weights to")
    parser.add_argument("--summary", type=Path, help="JSON to write: what went where")
    options = parser.parse_args(arguments)
    try:
        lowered = Lowered(options.lowered)
        linked = link(lowered, options.program, options.data)
    except BuildError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    if options.summary:
        text = json.dumps(dataclasses.asdict(linked), indent=1, sort_keys=True)
        options.summary.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
