"""`et inspect`: what is in a file, and what is missing to run it."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etlink import process, ptd, pte, tables
from etlink.amounts import human_bytes, human_tensor

from etcli import paths
from etcli.command import Outcome, add_data_option
from etcli.console import Printer, shortened
from etcli.files import bundled_file, contents
from etcli.files.explain import kind_of

PROGRAM, DATA_FILE, BUNDLE = "program", "data file", "bundled program"
# As many rows as a table has without --all.
_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("file", metavar="FILE", help=".pte, .ptd or .bpte file")
    add_data_option(parser)
    parser.add_argument("--all", action="store_true", help="show all data and full names")
    parser.add_argument(
        "--runtime",
        action="store_true",
        help="also list backends and operators that this machine's runtime lacks",
    )


def command(options: argparse.Namespace) -> Outcome:
    """Inspects a file."""
    path = paths.existing(options.file)
    data = [paths.existing(p) for p in options.data]
    if not data and checked_kind(path) == PROGRAM:
        data = paths.data_beside(path)
    result = inspect(path, data)
    titles = {k: t for file in (*data, path) for k, t in paths.titles_beside(file).items()}
    for datum, key in [(d, d["name"]) for d in result["data"]] + [
        (d, d["key"]) for d in result.get("missing", [])
    ]:
        if key in titles:
            datum["title"] = titles[key]
    if options.runtime and "needs" in result:
        request = {"command": "missing", **result["needs"]}
        with tempfile.TemporaryDirectory(prefix="et-") as folder:
            result["runtime"] = process.ask("etcli.execution", request, Path(folder), path.name)
    return Outcome(result, lambda out: show(result, out, options.all))


def inspect(path: Path, data: Sequence[Path] = ()) -> dict[str, Any]:
    """Describes a .pte, .ptd or .bpte file.

    Args:
      path: the file.
      data: .ptd files that it is loaded with.

    Raises:
      BuildError: it is none of those, truncated or damaged.
    """
    kind = checked_kind(path)
    whole = {"file": path.name, "kind": kind, "bytes": path.stat().st_size}
    if kind == DATA_FILE:
        return whole | {"data": sorted(map(_datum, data_of_file(path)), key=_largest_first)}
    if kind == BUNDLE:
        bundle = bundled_file.read(path)
        with bundle.program_file() as program:
            described = describe(program, data)
        return whole | described | {"cases": _cases(bundle)}
    return whole | describe(pte.read(path), data)


def checked_kind(path: Path) -> str:
    """Tells a file's kind by its first bytes.

    Raises:
      BuildError: nothing that ExecuTorch has.
    """
    if path.is_dir():
        raise BuildError(
            f"{path}: got a folder, expected a .pte, .ptd or .bpte file.",
            "et verify checks apps, and et diff compares folders.",
        )
    kind = kind_of(path)
    if kind not in (PROGRAM, DATA_FILE, BUNDLE):
        with open(path, "rb") as source:
            head = source.read(8)[4:]
        raise BuildError(
            f"{path} is not a .pte, .ptd or .bpte file: bytes 4 to 8: got {head!r}, expected "
            "b'ET12', b'FT01' or b'BP08'.",
            "Give a file that a build has written.",
        )
    return kind


def describe(program: pte.ProgramFile, data: Sequence[Path]) -> dict[str, Any]:
    """Methods, data and needs of a program.

    Args:
      program: the file, read.
      data: .ptd files that it is loaded with.
    """
    inside = contents.data_of(program)
    methods = list(tables.describe_methods(program.program))
    for method in methods:
        payloads = [d for d in inside if d.kind == contents.PAYLOAD and d.method == method["name"]]
        method["delegates"] = _by_backend(payloads)
    kinds = (contents.CONSTANT, contents.NAMED, contents.PAYLOAD, contents.MUTABLE)
    segments = sum(size for _, size in program.segments)
    embedded = {d.name for d in inside if d.kind == contents.NAMED}
    outside = [key for key in contents.keys_of(program) if key.key not in embedded]
    files = {path: ptd.read(path) for path in data}
    available = {key for keys in files.values() for key in keys}
    return {
        "methods": methods,
        "sizes": {
            "tables": program.path.stat().st_size - segments,
            **{kind: sum(d.piece.size for d in inside if d.kind == kind) for kind in kinds},
        },
        "data": sorted(
            (_datum(d) | {"kind": d.kind, "backend": d.backend} for d in inside),
            key=_largest_first,
        ),
        "needs": {
            "backends": sorted({b for m in methods for b in m["backends"]}),
            "operators": sorted({o for m in methods for o in m["operators"]}),
            "keys": len(outside),
        },
        "data_files": [
            {
                "file": path.name,
                "keys": len(keys),
                "used": sum(1 for key in outside if key.key in keys),
            }
            for path, keys in files.items()
        ],
        "missing": [
            {
                "key": key.key,
                "method": key.method,
                "backend": key.backend,
                "dtype": key.dtype,
                "shape": list(key.shape),
            }
            for key in outside
            if key.key not in available
        ],
    }


def data_of_file(path: Path) -> list[contents.Datum]:
    """The data of a .ptd file, in its order.

    Raises:
      BuildError: it is truncated or damaged.
    """
    data = []
    for key, (piece, layout) in ptd.read(path).items():
        dtype = tables.SCALAR_TYPES[layout.scalar_type][0] if layout else ""
        shape = tuple(layout.sizes) if layout else ()
        data.append(contents.Datum(key, contents.NAMED, key, piece, dtype, shape))
    return data


def _by_backend(payloads: Sequence[contents.Datum]) -> list[dict[str, Any]]:
    calls, sizes = Counter[str](), Counter[str]()
    for payload in payloads:
        calls[payload.backend] += 1
        sizes[payload.backend] += payload.piece.size
    return [{"backend": b, "calls": calls[b], "bytes": sizes[b]} for b in sorted(calls)]


def _datum(datum: contents.Datum) -> dict[str, Any]:
    size, shape = datum.piece.size, list(datum.shape)
    return {"name": datum.name, "bytes": size, "dtype": datum.dtype, "shape": shape}


def _largest_first(datum: Mapping[str, Any]) -> tuple[int, str]:
    return -datum["bytes"], datum["name"]


def _cases(bundle: bundled_file.Bundled) -> list[dict[str, Any]]:
    def described(values: Sequence[bundled_file.Value]) -> list[dict[str, Any]]:
        return [{"dtype": v.dtype, "shape": list(v.shape)} for v in values]

    return [
        {
            "method": case.method,
            "inputs": described(case.inputs),
            "outputs": described(case.outputs),
        }
        for case in bundle.cases
    ]


def show(result: Mapping[str, Any], out: Printer, everything: bool = False) -> None:
    """Prints what `inspect` returned.

    Args:
      result: that, with "runtime" where the machine's runtime was asked.
      out: where to.
      everything: all data, instead of the largest.
    """
    out.line(f"{result['file']}: {result['kind']}, {human_bytes(result['bytes'])}", "bold")
    if "methods" in result:
        _show_missing(result, out)
        _show_methods(result["methods"], out)
        out.heading("Bytes")
        rows = [[k, human_bytes(v)] for k, v in result["sizes"].items() if v]
        out.table(["what", "bytes"], rows, numbers=[1])
    if result.get("cases"):
        out.heading("Test cases")
        rows = [[c["method"], values(c["inputs"]), values(c["outputs"])] for c in result["cases"]]
        out.table(["method", "inputs", "outputs"], rows)
    _show_data(result["data"], out, everything)
    for file in result.get("data_files", []):
        out.line(f"Loaded with {file['file']}: {file['used']} of its {file['keys']} keys are used.")


def _show_missing(result: Mapping[str, Any], out: Printer) -> None:
    missing = result["missing"]
    if missing:
        out.warning(
            f"{len(missing)} of {result['needs']['keys']} keys outside of the file are missing; "
            "name their .ptd files with --data:"
        )
        for key in missing[:5]:
            name = key.get("title") or shortened(key["key"])
            out.warning(f"  {name}  {_tensor(key)}".rstrip())
        if len(missing) > 5:
            out.warning(f"  and {len(missing) - 5} more")
    for kind in ("backends", "operators"):
        for name in result.get("runtime", {}).get(f"missing_{kind}", []):
            out.warning(f"This machine's runtime lacks the {kind[:-1]} {name}")


def _show_methods(methods: Sequence[Mapping[str, Any]], out: Printer) -> None:
    out.heading("Methods")
    rows = [
        [
            method["name"],
            values(method["inputs"]),
            values(method["outputs"]),
            ", ".join(
                f"{d['backend']} × {d['calls']} ({human_bytes(d['bytes'])})"
                for d in method["delegates"]
            )
            or "–",
            human_bytes(sum(method["memory"])),
        ]
        for method in methods
    ]
    out.table(["name", "inputs", "outputs", "delegates", "planned memory"], rows, numbers=[4])
    operators = sorted({o for m in methods for o in m["operators"]})
    if operators:
        out.heading(f"Operators ({len(operators)})")
        for name in operators:
            users = [m["name"] for m in methods if name in m["operators"]]
            some = "" if len(users) == len(methods) else f"  ({', '.join(users)})"
            out.line(name + some)


def _show_data(data: Sequence[Mapping[str, Any]], out: Printer, everything: bool) -> None:
    if not data:
        return
    total = human_bytes(sum(d["bytes"] for d in data))
    out.heading(f"Data ({len(data)}, {total})")
    shown = data if everything else data[:_SHOWN]
    kinds = any("kind" in d for d in shown)
    columns = ["bytes", *(["kind"] if kinds else []), "tensor", "name"]
    rows = [
        [
            human_bytes(d["bytes"]),
            *([d["kind"]] if kinds else []),
            _tensor(d),
            _title(d, everything),
        ]
        for d in shown
    ]
    out.table(columns, rows, numbers=[0])
    if len(shown) < len(data):
        out.line(f"and {len(data) - len(shown)} smaller ones; --all shows them")


def _title(datum: Mapping[str, Any], everything: bool) -> str:
    title, name = datum.get("title", ""), datum["name"]
    if everything:
        return f"{title}  {name}" if title else name
    return title or shortened(name)


def values(described: Sequence[Mapping[str, Any]]) -> str:
    """Inputs or outputs of a method in one line: "float32 [1, 64], int"."""
    return ", ".join(_tensor(v) or v.get("kind", "") for v in described) or "–"


def _tensor(value: Mapping[str, Any]) -> str:
    bounds = " at most" if value.get("shapes") == "bounded" else ""
    text = human_tensor(value.get("dtype", ""), value.get("shape", []))
    return text + bounds if text else ""
