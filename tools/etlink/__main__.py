"""EtLink: links a lowered program into a .pte, and a .ptd if asked for.

Contract: `etlink --lowered DIR --program OUT.pte [--data OUT.ptd] [--manifest OUT.json]
[--summary OUT.json] [--shared MANIFEST.json]… [--label L] [--allow_unshared] [--own_data NAME]…
[--min_shared AMOUNT] [--min_delegated PERCENT] [--adapter_data by_content|by_name]
[--adapter DIR] [--require_kernels] [--app_operator NAME]…`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.command import tool_main

from etlink import adapter_values, delegated, estimates, manifest, without_kernel
from etlink.container import REBUILD
from etlink.json_file import encode, fields_of, write_json
from etlink.link import Options, link
from etlink.lowered import Lowered
from etlink.share import only_data_file


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the linker."""
    parser = ToolParser(prog="etlink", description=__doc__)
    parser.add_argument("--lowered", type=Path, required=True, help="directory of EtLower")
    parser.add_argument("--program", type=Path, required=True, help=".pte to write")
    parser.add_argument("--data", type=Path, help=".ptd to write the weights to")
    parser.add_argument("--manifest", type=Path, help="JSON to write: what the program needs")
    parser.add_argument("--summary", type=Path, help="JSON to write: what went where")
    parser.add_argument("--label", default="", help="the program, for messages")
    parser.add_argument(
        "--shared", type=Path, action="append", default=[], help="manifest of shared data"
    )
    parser.add_argument("--allow_unshared", action="store_true")
    parser.add_argument("--own_data", action="append", default=[], metavar="NAME")
    parser.add_argument("--min_shared", default="", metavar="AMOUNT")
    parser.add_argument("--min_delegated", default="", metavar="PERCENT")
    parser.add_argument("--adapter_data", default="by_content", choices=["by_content", "by_name"])
    parser.add_argument("--adapter", type=Path, help="directory of EtAdapt")
    parser.add_argument("--require_kernels", action="store_true")
    parser.add_argument("--app_operator", action="append", default=[], metavar="NAME")
    args = parser.parse_args(arguments)
    label = args.label or str(args.lowered)
    options = Options(
        label=args.label,
        shared=tuple(only_data_file(path) for path in args.shared),
        allow_unshared=args.allow_unshared,
        own_data=tuple(args.own_data),
        min_shared=args.min_shared,
        adapter_data=args.adapter_data,
        values=adapter_values.read(args.adapter) if args.adapter else None,
    )
    if args.min_delegated:
        methods = delegated.read(args.lowered)
        with fields_of(args.lowered / "lowering.json", REBUILD):
            delegated.check(label, methods, args.min_delegated)
    if args.require_kernels:
        without_kernel.check(label, args.lowered, args.app_operator)
    lowered = Lowered(args.lowered, more=args.adapter)
    linked = link(lowered, args.program, args.data, options)
    if args.manifest:
        manifest.write(args.manifest, linked.manifest)
    if args.summary:
        summary = {name: encode(value) for name, value in vars(linked).items()}
        with fields_of(args.lowered / "lowering.json", REBUILD):
            summary["estimates"] = estimates.of_program(delegated.read(args.lowered))
            summary["delegated_layers"] = delegated.layers(args.lowered)
        write_json(args.summary, summary)


if __name__ == "__main__":
    sys.exit(main())
