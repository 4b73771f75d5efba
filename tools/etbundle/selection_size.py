"""EtSize: measures how much of a binary the selection of operators saves.

Contract: `etbundle.selection_size --label APP --binary FILE --whole FILE --output OUT.json`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etlink.json_file import write_json


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtSize."""
    parser = ToolParser(prog="etbundle.selection_size", description=__doc__)
    parser.add_argument("--label", required=True)
    parser.add_argument("--binary", type=Path, required=True, help="the app's")
    parser.add_argument("--whole", type=Path, required=True, help="with all of each static library")
    parser.add_argument("--output", type=Path, required=True, help="JSON to write")
    args = parser.parse_args(arguments)
    sizes = {
        "label": args.label,
        "binary_size": args.binary.stat().st_size,
        "whole_binary_size": args.whole.stat().st_size,
    }
    write_json(args.output, sizes)


if __name__ == "__main__":
    sys.exit(main())
