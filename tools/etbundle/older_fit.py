"""EtFit: checks that older versions of ExecuTorch have all that a program uses.

Contract: `etbundle.older_fit --label TEST --program LABEL FILE.pte --inventories FILE.json
[--inventory FILE.json]… [--version V]… --output OUT`

`--inventories` has the bundled versions, `--inventory` one that a tag declares (`inventory.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etbuild.errors import BuildError
from etbuild.operator_versions import numbers
from etlink import payload, payload_operators, pte, tables
from etlink.container import write_text
from etlink.json_file import decode, read_object

from etbundle.inventory import KINDS, Inventory
from etbundle.needs import Need, uses_of

_PROBLEM = "is not an inventory of a version of ExecuTorch"
_HINT = "Write it again: bazel run //toolchains/older:inventories.update"


def needs_of(label: str, path: Path) -> list[Need]:
    """Lists a program's needs: operators and backends of its methods, and kinds of the schema.

    Args:
      label: the program.
      path: its .pte file.

    Raises:
      BuildError: it is not a program, or damaged.
    """
    file = pte.read(path)
    needs = [need for use in uses_of(label, path) for need in use.needs()]
    values = {int(v.valType) for plan in file.program.executionPlan for v in plan.values or []}
    types = {int(tensor.scalarType) for _, _, tensor in tables.tensors(file.program)}
    nodes, datatypes = _payload_kinds(file)
    by_kind = {
        "Program": {file.program.version},
        "KernelTypes": values,
        "ScalarType": types,
        "XNodeUnion": nodes,
        "XNNDatatype": datatypes,
    }
    return needs + [
        Need(label, kind, str(n)) for kind, numbers in by_kind.items() for n in sorted(numbers)
    ]


def _payload_kinds(file: pte.ProgramFile) -> tuple[set[int], set[int]]:
    nodes: set[int] = set()
    datatypes: set[int] = set()
    for delegate in payload_operators.delegates(file, [payload.BACKEND]):
        of_nodes, of_datatypes = payload.kinds(delegate.payload)
        nodes |= of_nodes
        datatypes |= of_datatypes
    return nodes, datatypes


def check(test: str, needs: Sequence[Need], version: str, known: Mapping[str, Inventory]) -> None:
    """Fails where a version lacks something.

    Args:
      test: label of the test, for messages.
      needs: of a program.
      version: of ExecuTorch; a key of `known`.
      known: version to its inventory.

    Raises:
      BuildError: an operator, a backend or a kind of the schema is missing; the message names the
        oldest version that has it.
    """
    for need in needs:
        if need.is_met_by(known[version]):
            continue
        having = [v for v in sorted(known, key=numbers) if need.is_met_by(known[v])]
        where = f"Version {having[0]} has it" if having else "No known version has it"
        raise BuildError(
            f"{test}: runtimes: {_described(need, known)}, which ExecuTorch {version} "
            f"lacks. {where}.",
            f'Remove "{version}" from runtimes, or use a recipe or a model without it.',
        )


def _described(need: Need, known: Mapping[str, Inventory]) -> str:
    if need.kind not in KINDS:
        return str(need)
    names = {
        name for one in known.values() for name in [one.schema[need.kind].get(need.name)] if name
    }
    return f'{need.program} has the {KINDS[need.kind]} "{min(names, default=need.name)}"'


def read(path: Path) -> dict[str, Inventory]:
    """The inventories in a file, by version: of one version, or a list of several in "versions".

    Raises:
      BuildError: the file cannot be read or is malformed.
    """
    content = read_object(path, _PROBLEM, _HINT)
    try:
        entries = [decode(Inventory, entry) for entry in content.get("versions", [content])]
    except ValueError as error:
        raise BuildError(f"{path} {_PROBLEM}: {error}.", _HINT) from error
    return {entry.version: entry for entry in entries}


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtFit."""
    parser = ToolParser(prog="etbundle.older_fit", description=__doc__)
    parser.add_argument("--label", required=True)
    parser.add_argument("--program", nargs=2, required=True)
    parser.add_argument("--inventories", type=Path, required=True)
    parser.add_argument("--inventory", type=Path, action="append", default=[])
    parser.add_argument("--version", action="append", required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(arguments)
    known = read(args.inventories)
    for path in args.inventory:
        known |= read(path)
    label, path = args.program
    needs = needs_of(label, Path(path))
    for version in args.version:
        check(args.label, needs, version, known)
    write_text(args.output, "".join(f"{version}\n" for version in args.version))


if __name__ == "__main__":
    sys.exit(main())
