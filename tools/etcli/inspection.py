"""`et inspect`: what is in a file, and what is missing to run it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etlink import ptd, pte, tables

from etcli import amounts, bundled_file
from etcli.console import Printer
from etcli.reproduce import contents
from etcli.reproduce.explain import kind_of

PROGRAM, DATA_FILE, BUNDLE = "program", "data file", "bundled program"
# As many rows as a table has without --all.
_SHOWN = 20


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
        return whole | {"data": _of_data_file(path)}
    if kind == BUNDLE:
        bundle = bundled_file.read(path)
        with bundle.program_file() as program:
            described = describe(program, data)
        return whole | described | {"cases": _cases(bundle)}
    return whole | describe(pte.read(path), data)


def checked_kind(path: Path) -> str:
    """What a file is, by its first bytes.

    Raises:
      BuildError: nothing that ExecuTorch has.
    """
    if path.is_dir():
        raise BuildError(
            f"{path} is a folder, wanted a .pte, .ptd or .bpte file.",
            "et verify looks into apps, and et diff compares folders.",
        )
    kind = kind_of(path)
    if kind not in (PROGRAM, DATA_FILE, BUNDLE):
        with open(path, "rb") as source:
            head = source.read(8)[4:]
        raise BuildError(
            f"{path} is no .pte, .ptd or .bpte file: bytes 4 to 8 are {head!r}, wanted "
            "b'ET12', b'FT01' or b'BP08'.",
            "Give one that a build has made.",
        )
    return kind


def describe(program: pte.ProgramFile, data: Sequence[Path]) -> dict[str, Any]:
    """Methods, data and needs of a program.

    Args:
      program: what was read.
      data: .ptd files that it is loaded with.
    """
    held = contents.data_of(program)
    wanted = contents.wanted_keys(program)
    methods = list(tables.describe_methods(program.program))
    for method in methods:
        payloads = [d for d in held if d.kind == contents.PAYLOAD and d.method == method["name"]]
        method["delegates"] = [
            {"backend": backend, "calls": count, "bytes": sizes}
            for backend, count, sizes in _by_backend(payloads)
        ]
    present = {d.name for d in held if d.kind == contents.NAMED}
    files = {path: ptd.read(path) for path in data}
    outside = [w for w in wanted if w.key not in present]
    found = {key for keys in files.values() for key in keys}
    segments = sum(size for _, size in program.segments)
    return {
        "methods": methods,
        "sizes": {
            "tables": program.path.stat().st_size - segments,
            **{
                kind: sum(d.piece.size for d in held if d.kind == kind)
                for kind in (
                    contents.CONSTANT,
                    contents.NAMED,
                    contents.PAYLOAD,
                    contents.MUTABLE,
                )
            },
        },
        "data": [
            {
                "name": d.name,
                "kind": d.kind,
                "bytes": d.piece.size,
                "dtype": d.dtype,
                "shape": list(d.shape),
                "backend": d.backend,
            }
            for d in sorted(held, key=lambda d: (-d.piece.size, d.name))
        ],
        "needs": {
            "backends": sorted({b for m in methods for b in m["backends"]}),
            "operators": sorted({o for m in methods for o in m["operators"]}),
            "keys": len(outside),
        },
        "data_files": [
            {
                "file": path.name,
                "keys": len(keys),
                "used": sum(1 for w in outside if w.key in keys),
            }
            for path, keys in files.items()
        ],
        "missing": [
            {
                "key": w.key,
                "method": w.method,
                "backend": w.backend,
                "dtype": w.dtype,
                "shape": list(w.shape),
            }
            for w in outside
            if w.key not in found
        ],
    }


def _by_backend(payloads: Sequence[contents.Datum]) -> list[tuple[str, int, int]]:
    calls = Counter(d.backend for d in payloads)
    return [
        (backend, calls[backend], sum(d.piece.size for d in payloads if d.backend == backend))
        for backend in sorted(calls)
    ]


def _of_data_file(path: Path) -> list[dict[str, Any]]:
    found = []
    for key, (piece, layout) in ptd.read(path).items():
        dtype, sizes = "", []
        if layout:
            dtype, sizes = tables.SCALAR_TYPES[layout.scalar_type][0], list(layout.sizes)
        found.append({"name": key, "bytes": piece.size, "dtype": dtype, "shape": sizes})
    return sorted(found, key=lambda d: (-d["bytes"], d["name"]))


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


def show(found: Mapping[str, Any], out: Printer, everything: bool = False) -> None:
    """Prints what `inspect` returned.

    Args:
      found: that, with "runtime" where the machine's runtime was asked.
      out: where to.
      everything: all data, instead of the largest.
    """
    out.line(f"{found['file']}: {found['kind']}, {amounts.size(found['bytes'])}", "bold")
    if "methods" in found:
        _show_missing(found, out)
        _show_methods(found["methods"], out)
        out.heading("Bytes")
        rows = [[k, amounts.size(v)] for k, v in found["sizes"].items() if v]
        out.table(["what", "bytes"], rows, numbers=[1])
    if found.get("cases"):
        out.heading("Test cases")
        rows = [[c["method"], _values(c["inputs"]), _values(c["outputs"])] for c in found["cases"]]
        out.table(["method", "inputs", "outputs"], rows)
    _show_data(found["data"], out, everything)
    for file in found.get("data_files", []):
        out.line(
            f"Loaded with {file['file']}: {file['used']} of its {file['keys']} keys are asked for."
        )


def _show_missing(found: Mapping[str, Any], out: Printer) -> None:
    missing = found["missing"]
    if missing:
        out.warning(
            f"{len(missing)} of {found['needs']['keys']} keys that lie outside of the file are "
            "missing; name their .ptd files with --data:"
        )
        for one in missing[:5]:
            out.warning(f"  {amounts.shortened(one['key'])}  {_tensor(one)}".rstrip())
        if len(missing) > 5:
            out.warning(f"  and {len(missing) - 5} more")
    runtime = found.get("runtime")
    if runtime:
        for kind in ("backends", "operators"):
            for name in runtime[f"missing_{kind}"]:
                out.warning(f"This machine's runtime has no {kind[:-1]} {name}")


def _show_methods(methods: Sequence[Mapping[str, Any]], out: Printer) -> None:
    out.heading("Methods")
    rows = [
        [
            method["name"],
            _values(method["inputs"]),
            _values(method["outputs"]),
            ", ".join(
                f"{d['backend']} × {d['calls']} ({amounts.size(d['bytes'])})"
                for d in method["delegates"]
            )
            or "–",
            amounts.size(sum(method["memory"])),
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
    total = amounts.size(sum(d["bytes"] for d in data))
    out.heading(f"Data ({len(data)}, {total})")
    shown = data if everything else data[:_SHOWN]
    kinds = any("kind" in d for d in shown)
    columns = ["bytes", *(["kind"] if kinds else []), "tensor", "name"]
    rows = [
        [
            amounts.size(d["bytes"]),
            *([d["kind"]] if kinds else []),
            _tensor(d),
            d["name"] if everything else amounts.shortened(d["name"]),
        ]
        for d in shown
    ]
    out.table(columns, rows, numbers=[0])
    if len(shown) < len(data):
        out.line(f"and {len(data) - len(shown)} smaller ones; --all shows them")


def _values(values: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(_tensor(v) or v.get("kind", "") for v in values) or "–"


def _tensor(value: Mapping[str, Any]) -> str:
    bounds = " at most" if value.get("shapes") == "bounded" else ""
    text = amounts.shape(value.get("dtype", ""), value.get("shape", []))
    return text + bounds if text else ""
