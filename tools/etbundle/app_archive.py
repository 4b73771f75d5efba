"""EtPackage: packs an app's directory into one file.

Contract: `etbundle.app_archive --app DIR --prefix FOLDER --output OUT.tar.zst|OUT.zip`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etlink import manifest

from etbundle.app import MANIFEST
from etbundle.archives import WRITERS
from etbundle.entries import tree


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtPackage."""
    parser = ToolParser(prog="etbundle.app_archive", description=__doc__)
    parser.add_argument("--app", type=Path, required=True, help="output of EtApp")
    parser.add_argument("--prefix", default="", help="folder in the archive")
    parser.add_argument("--output", type=Path, required=True, help=" or ".join(WRITERS))
    args = parser.parse_args(arguments)
    executables = manifest.read(args.app / MANIFEST).code()
    kind = next(kind for kind in WRITERS if args.output.name.endswith(kind))
    WRITERS[kind](args.output, tree(args.app, args.prefix, executables))


if __name__ == "__main__":
    sys.exit(main())
