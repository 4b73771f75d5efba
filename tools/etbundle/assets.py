"""EtAssets: the manifest of programs and data that lie in another app.

Contract: `etbundle.assets --label L --name N --exporter_version V --program LABEL NAME PTE MANIFEST
--data LABEL FILE … --asset PATH=FILE … --manifest OUT.json [--runtime_version V] [--platform P]…`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild.arguments import ToolParser, split_pair
from etbuild.command import exit_code
from etlink.container import write_text

from etbundle.app import App, Program, add_programs, describe_files
from etbundle.fit import by_program, uses_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs EtAssets; returns the exit code."""
    parser = ToolParser(prog="etbundle.assets", description=__doc__)
    for name in ("label", "name", "exporter_version"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--runtime_version", help="of the runtime that comes along")
    parser.add_argument("--platform", action="append", default=[], help="that it is for")
    parser.add_argument("--program", nargs=4, action="append", default=[])
    parser.add_argument("--data", nargs=2, action="append", default=[])
    parser.add_argument("--asset", type=split_pair, action="append", default=[])
    parser.add_argument("--manifest", type=Path, required=True, help="JSON to write")
    given = parser.parse_args(arguments)

    def work() -> None:
        programs = [Program(a, b, Path(c), Path(d)) for a, b, c, d in given.program]
        uses = [use for program in programs for use in uses_of(program.label, program.file)]
        app = App({"label": given.label}, {"programs": by_program(uses)})
        described = add_programs(app, programs, [(label, Path(f)) for label, f in given.data])
        # Files of the target, even if the programs turn out to need none of their weights.
        for _, file in given.data:
            app.add(f"data/{Path(file).name}", Path(file))
        assets = [app.add(f"assets/{path}", file) for path, file in given.asset]
        versions = {"exporter": given.exporter_version}
        if given.runtime_version:
            versions["runtime"] = given.runtime_version
        whole = {
            "format": 1,
            "app": given.name,
            "label": given.label,
            "executorch": versions,
            "programs": described,
            "data": sorted(p for p in app.files if p.startswith("data/")),
            "assets": sorted(assets),
            "files": describe_files(app.files),
        }
        if given.platform:
            whole["platforms"] = given.platform
        write_text(given.manifest, json.dumps(whole, indent=1, sort_keys=True) + "\n")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
