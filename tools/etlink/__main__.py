"""EtLink: links a lowered program into a .pte, and a .ptd if asked for.

Contract: `etlink --lowered DIR --program OUT.pte [--data OUT.ptd] [--manifest OUT.json]
[--summary OUT.json] [--shared INDEX.json]… [--label L] [--allow_unshared] [--own_data NAME]…
[--min_shared AMOUNT] [--min_delegated SHARE] [--adapter_data by_content|by_name]
[--adapter DIR] [--require_kernels] [--app_operator NAME]…`
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.errors import BuildError

from etlink import adapter_values, delegated, manifest, without_kernel
from etlink.container import REBUILD, write_text
from etlink.json_file import fields_of
from etlink.link import Options, link
from etlink.lowered import Lowered
from etlink.shared import read_index


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the linker; returns the exit code."""
    parser = ToolParser(prog="etlink", description=__doc__)
    parser.add_argument("--lowered", type=Path, required=True, help="directory of EtLower")
    parser.add_argument("--program", type=Path, required=True, help=".pte to write")
    parser.add_argument("--data", type=Path, help=".ptd to write the weights to")
    parser.add_argument("--manifest", type=Path, help="JSON to write: what the program needs")
    parser.add_argument("--summary", type=Path, help="JSON to write: what went where")
    parser.add_argument("--label", default="", help="the program, for messages")
    parser.add_argument("--shared", type=Path, action="append", default=[], help="index to share")
    parser.add_argument("--allow_unshared", action="store_true")
    parser.add_argument("--own_data", action="append", default=[], metavar="NAME")
    parser.add_argument("--min_shared", default="", metavar="AMOUNT")
    parser.add_argument("--min_delegated", default="", metavar="SHARE")
    parser.add_argument("--adapter_data", default="by_content", choices=["by_content", "by_name"])
    parser.add_argument("--adapter", type=Path, help="directory of EtAdapt")
    parser.add_argument("--require_kernels", action="store_true")
    parser.add_argument("--app_operator", action="append", default=[], metavar="NAME")
    given = parser.parse_args(arguments)
    try:
        options = Options(
            given.label,
            tuple(read_index(path) for path in given.shared),
            given.allow_unshared,
            tuple(given.own_data),
            given.min_shared,
            given.adapter_data,
            adapter_values.values(given.adapter) if given.adapter else None,
        )
        if given.min_delegated:
            facts = delegated.read(given.lowered)
            with fields_of(given.lowered / "lowering.json", REBUILD):
                delegated.check(given.label or str(given.lowered), facts, given.min_delegated)
        if given.require_kernels:
            label = given.label or str(given.lowered)
            without_kernel.check(label, given.lowered, given.app_operator)
        linked = link(
            Lowered(given.lowered, more=given.adapter), given.program, given.data, options
        )
        if given.manifest:
            manifest.write(given.manifest, linked.manifest)
        if given.summary:
            text = json.dumps(dataclasses.asdict(linked), indent=1, sort_keys=True)
            write_text(given.summary, text + "\n")
    except BuildError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
