"""EtScan: lists what a version of ExecuTorch has, for programs that are to run on it.

Contract: `etbundle.inventory --version V --library FILE… --schema FILE… --output OUT.json`

A version has operators and backends, which its libraries register (`scan.py`), and a schema: the
kinds of values and element types that a program's tables may have, and the kinds of nodes and
element types that XNNPACK's payloads may have. The schema is read from the version's own .fbs
files. Their enums and unions only grow, so a version that lacks a number cannot run a program with
it. The runtime's header says which versions of the schema it reads; it misreads or refuses others.
`//toolchains/older:inventories.json` has the bundled versions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etbuild.errors import BuildError, listed
from etlink.json_file import write_json

from etbundle.scan import scan

# Names of enums and unions in the files of --schema to what messages call their members.
KINDS = {
    "Program": "schema version",
    "KernelTypes": "kind of value",
    "ScalarType": "element type",
    "XNodeUnion": "XNNPACK node",
    "XNNDatatype": "XNNPACK element type",
}

_BLOCK = re.compile(r"^(enum|union) (\w+)[^{]*\{(.*?)\}", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*")
_NEWEST_SCHEMA = re.compile(r"\bkMaxSupportedSchemaVersion = (\d+);")


@dataclass(frozen=True)
class Inventory:
    """The operators, backends and more that a version has.

    Attributes:
      version: of ExecuTorch.
      operators: e.g. "aten::add.out", sorted.
      backends: e.g. "XnnpackBackend", sorted.
      schema: a key of KINDS to number, as text, to name.
    """

    version: str
    operators: tuple[str, ...]
    backends: tuple[str, ...]
    schema: dict[str, dict[str, str]]


def newest_schema(header: str) -> int:
    """Returns the newest version of a program's schema that a runtime reads.

    Args:
      header: text of the runtime's program.h. Runtimes whose header has no version know only 0.
    """
    version = _NEWEST_SCHEMA.search(header)
    return int(version[1]) if version else 0


def members(text: str) -> dict[str, dict[str, str]]:
    """Members of the enums and unions of an .fbs file that KINDS names: number to name."""
    found = {}
    for kind, name, body in _BLOCK.findall(_COMMENT.sub("", text)):
        if name in KINDS:
            # 0 is a union's NONE.
            found[name] = _numbered(body, 1 if kind == "union" else 0)
    return found


def _numbered(body: str, following: int) -> dict[str, str]:
    numbered = {}
    for entry in filter(None, (part.strip() for part in body.split(","))):
        name, _, value = (part.strip() for part in entry.partition("="))
        following = int(value) if value else following
        numbered[str(following)] = name.partition(":")[0].strip()
        following += 1
    return numbered


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtScan."""
    parser = ToolParser(prog="etbundle.inventory", description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--library", type=Path, action="append", required=True)
    parser.add_argument("--schema", type=Path, action="append", default=[])
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(arguments)
    scans = [scan(library) for library in args.library]
    schema: dict[str, dict[str, str]] = {}
    for path in args.schema:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".h":
            schema["Program"] = {str(n): str(n) for n in range(newest_schema(text) + 1)}
        else:
            schema |= members(text)
    if schema.keys() != KINDS.keys():
        raise BuildError(
            f"ExecuTorch {args.version}: its schemas: got {listed(sorted(schema))}, "
            f"expected {', '.join(sorted(KINDS))}.",
            "Use another version.",
        )
    inventory = Inventory(
        args.version,
        tuple(sorted({operator for one in scans for operator in one.operators})),
        tuple(sorted({backend for one in scans for backend in one.backends})),
        schema,
    )
    write_json(args.output, vars(inventory))


if __name__ == "__main__":
    sys.exit(main())
