"""EtScan: what a library registers.

Contract: `etbundle.scan --label L --library FILE… --backend NAME… --output OUT.json`
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild.errors import BuildError
from etlink.container import write_text

from etbundle.command import exit_code

_OPERATOR = re.compile(rb"\0([a-z_][a-z0-9_]*::[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)?)(?=\0)")


def operators(library: Path) -> set[str]:
    found = {name.decode() for name in _OPERATOR.findall(library.read_bytes())}
    return {name for name in found if "::_M_" not in name}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs EtScan; returns the exit code."""
    parser = argparse.ArgumentParser(prog="etbundle.scan", description=__doc__)
    parser.add_argument("--label", required=True)
    parser.add_argument("--library", type=Path, action="append", default=[])
    parser.add_argument("--backend", action="append", default=[])
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args(arguments)

    def work() -> None:
        found: set[str] = set()
        for library in given.library:
            found |= operators(library)
        for backend in given.backend:
            name = backend.encode() + b"\0"
            if not any(name in library.read_bytes() for library in given.library):
                raise BuildError(
                    f'{given.label}: {given.library[0].name} doesn\'t name the backend "{backend}".',
                    "Correct backends in its et_runtime_library.",
                )
        whole = {
            "label": given.label,
            "operators": sorted(found),
            "backends": sorted(given.backend),
        }
        write_text(given.output, json.dumps(whole, indent=1, sort_keys=True) + "\n")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
