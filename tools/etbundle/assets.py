"""EtAssets: writes the manifest of programs and data that are packed into another app.

Contract: `etbundle.assets --label L --name N --exporter_version V --program LABEL NAME PTE MANIFEST
--data LABEL FILE … --asset PATH=FILE … --manifest OUT.json [--runtime_version V] [--platform P]…`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild.arguments import ToolParser, split_pair
from etbuild.command import tool_main
from etlink.json_file import write_json

from etbundle.app import App, Program, add_programs, describe_files
from etbundle.fit import by_program
from etbundle.needs import uses_of


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtAssets."""
    parser = ToolParser(prog="etbundle.assets", description=__doc__)
    for name in ("label", "name", "exporter_version"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--runtime_version", help="of the runtime in the package")
    parser.add_argument("--platform", action="append", default=[], help="that it is for")
    parser.add_argument("--program", nargs=4, action="append", default=[])
    parser.add_argument("--data", nargs=2, action="append", default=[])
    parser.add_argument("--asset", type=split_pair, action="append", default=[])
    parser.add_argument("--manifest", type=Path, required=True, help="JSON to write")
    args = parser.parse_args(arguments)
    programs = [Program(a, b, Path(c), Path(d)) for a, b, c, d in args.program]
    uses = [use for program in programs for use in uses_of(program.label, program.file)]
    app = App({"label": args.label}, {"programs": by_program(uses)})
    described = add_programs(app, programs, [(label, Path(f)) for label, f in args.data])
    # The target's files are packed even if the programs need none of their weights.
    for _, file in args.data:
        app.add(f"data/{Path(file).name}", Path(file))
    assets = [app.add(f"assets/{path}", file) for path, file in args.asset]
    versions = {"exporter": args.exporter_version}
    if args.runtime_version:
        versions["runtime"] = args.runtime_version
    manifest = {
        "format": 1,
        "app": args.name,
        "label": args.label,
        "executorch": versions,
        "programs": described,
        "data": sorted(p for p in app.files if p.startswith("data/")),
        "assets": sorted(assets),
        "files": describe_files(app.files),
    }
    if args.platform:
        manifest["platforms"] = args.platform
    write_json(args.manifest, manifest)


if __name__ == "__main__":
    sys.exit(main())
