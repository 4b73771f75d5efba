"""EtReport: what a program consists of, as JSON and as one self-contained page.

Contract: `etreport.program --label L --lowered DIR --facts JSON --summary JSON --json OUT
--html OUT`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.errors import BuildError
from etlink.container import REBUILD, write_text
from etlink.json_file import fields_of, read_object
from etlink.lowered import Lowered

from etreport import facts, page


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the report; returns the exit code."""
    parser = ToolParser(prog="etreport.program", description=__doc__)
    parser.add_argument("--label", required=True, help="the program")
    for name in ("lowered", "facts", "summary", "json", "html"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        index = Lowered(options.lowered).index
        files = (options.lowered / "lowering.json", options.facts, options.summary)
        read = [read_object(file, "is no part of a report", REBUILD) for file in files]
        with fields_of(
            f"{options.label}: {', '.join(f.name for f in files)}: one of them", REBUILD
        ):
            report = facts.make(options.label, index, *read)
            html = page.of_program(report)
        write_text(options.json, json.dumps(report, indent=1, sort_keys=True) + "\n")
        write_text(options.html, html)
    except BuildError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
