"""`et diff`: what changed from one file to another, in bytes and tensors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from etlink import ptd, pte, tables
from etlink.container import Piece, chunks

from etcli import amounts, bundled_file, inspection
from etcli.console import Printer, bar
from etcli.hashing import sha256_of
from etcli.reproduce import contents
from etcli.reproduce.compare import sha256
from etcli.reproduce.explain import MOST, explain
from etcli.reproduce.programs import of_fields

# Where data lie in a file follows from their sizes, which are compared themselves.
_LAYOUT = ("program.segments", "program.constantSegment", "program.namedData")
_STYLES = {"added": "green", "removed": "red", "changed": "yellow", "renamed": "cyan"}


def compare(one: Path, other: Path) -> dict[str, Any]:
    """Compares two files of one kind, or two folders.

    Args:
      one: the file before.
      other: the file after.

    Returns:
      "same", "bytes" of both; for programs and data files "data" and "methods" that differ;
      "other": sentences on all else.

    Raises:
      BuildError: one of them is damaged.
    """
    whole: dict[str, Any] = {
        "before": one.name,
        "after": other.name,
        "same": sha256(one) == sha256(other),
        "bytes": {"before": _size(one), "after": _size(other)},
        "data": [],
        "methods": [],
        "other": [],
    }
    if whole["same"]:
        return whole
    kinds = [None if p.is_dir() else inspection.kind_of(p) for p in (one, other)]
    if kinds == [inspection.PROGRAM] * 2:
        return whole | _of_programs(pte.read(one), pte.read(other))
    if kinds == [inspection.DATA_FILE] * 2:
        return whole | {"data": _of_data(_keys(one), _keys(other))}
    if kinds == [inspection.BUNDLE] * 2:
        return whole | _of_bundles(bundled_file.read(one), bundled_file.read(other))
    return whole | {"other": explain(one, other)}


def _size(path: Path) -> int:
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    return sum(p.stat().st_size for p in files)


def _keys(path: Path) -> list[contents.Datum]:
    found = []
    for key, (piece, layout) in ptd.read(path).items():
        dtype = tables.SCALAR_TYPES[layout.scalar_type][0] if layout else ""
        shape = layout.sizes if layout else ()
        found.append(contents.Datum(key, contents.NAMED, key, piece, dtype, shape))
    return found


def _of_bundles(one: bundled_file.Bundled, other: bundled_file.Bundled) -> dict[str, Any]:
    with one.program_file() as first, other.program_file() as second:
        found = _of_programs(first, second)
    if one.cases != other.cases:
        found["other"].append("the test cases differ: inputs or expected outputs")
    return found


def _of_programs(one: pte.ProgramFile, other: pte.ProgramFile) -> dict[str, Any]:
    fields = (
        line
        for line in of_fields("program", one.program, other.program)
        if not line.startswith(_LAYOUT)
    )
    return {
        "data": _of_data(contents.data_of(one), contents.data_of(other)),
        "methods": list(_of_methods(one.program, other.program)),
        "other": [
            *itertools.islice(fields, MOST),
            *itertools.islice(("… and more",), _one(fields)),
        ],
    }


def _one(lines: Iterator[str]) -> int:
    """1, if there are more lines."""
    return sum(1 for _ in itertools.islice(lines, 1))


def _of_methods(one: Any, other: Any) -> Iterator[dict[str, Any]]:
    """Methods that were added, removed, or differ in what a caller or a runtime sees."""
    first = {m["name"]: m for m in tables.describe_methods(one)}
    second = {m["name"]: m for m in tables.describe_methods(other)}
    for name in sorted({*first, *second}):
        if name not in first or name not in second:
            yield {"name": name, "change": "removed" if name in first else "added"}
            continue
        before, after = first[name], second[name]
        fields = {
            key: {"before": before[key], "after": after[key]}
            for key in ("inputs", "outputs", "delegates", "instructions", "memory")
            if before[key] != after[key]
        }
        for key in ("backends", "operators"):
            added = sorted(set(after[key]) - set(before[key]))
            removed = sorted(set(before[key]) - set(after[key]))
            if added or removed:
                fields[key] = {"added": added, "removed": removed}
        if fields:
            yield {"name": name, "change": "changed", **fields}


def _of_data(
    one: Sequence[contents.Datum], other: Sequence[contents.Datum]
) -> list[dict[str, Any]]:
    """Data that differ, those with the largest change of bytes first."""
    with bar("Comparing", sum(d.piece.size for d in [*one, *other])) as advance:
        first = {d.name: (d, sha256_of(d.piece, advance)) for d in one}
        second = {d.name: (d, sha256_of(d.piece, advance)) for d in other}
    lost = {hash_: name for name, (_, hash_) in first.items() if name not in second}
    found = []
    for name in {*first, *second}:
        before, hash_before = first.get(name, (None, ""))
        after, hash_after = second.get(name, (None, ""))
        if hash_before == hash_after and before and after and before.shape == after.shape:
            continue
        if after and not before and hash_after in lost:
            old = lost[hash_after]
            before, change = first[old][0], "renamed"
            found.append(_row(change, name, before, after) | {"before_name": old})
            continue
        change = "changed" if before and after else "added" if after else "removed"
        row = _row(change, name, before, after)
        if before and after and hash_before == hash_after:
            row["change"] = "reshaped"
        if before and after and before.piece.size == after.piece.size:
            row["bytes_that_differ"] = _differing(before.piece, after.piece)
        found.append(row)
    renamed = {row["before_name"] for row in found if "before_name" in row}
    found = [r for r in found if not (r["change"] == "removed" and r["name"] in renamed)]
    return sorted(found, key=lambda r: (-abs(r["after"] - r["before"]), r["name"]))


def _row(
    change: str, name: str, before: contents.Datum | None, after: contents.Datum | None
) -> dict[str, Any]:
    known = after or before
    assert known is not None
    return {
        "change": change,
        "name": name,
        "kind": known.kind,
        "dtype": known.dtype,
        "shape": list(known.shape),
        "before": before.piece.size if before else 0,
        "after": after.piece.size if after else 0,
    }


def _differing(one: Piece, other: Piece) -> int:
    """How many bytes differ between pieces of one size."""
    count = 0
    for first, second in zip(chunks(one), chunks(other), strict=True):
        if first != second:
            both = int.from_bytes(first, "little") ^ int.from_bytes(second, "little")
            count += len(first) - both.to_bytes(len(first), "little").count(0)
    return count


def show(found: Mapping[str, Any], out: Printer) -> None:
    """Prints what `compare` returned."""
    before, after = found["bytes"]["before"], found["bytes"]["after"]
    sizes = f"{amounts.size(before)} → {amounts.size(after)} ({amounts.change(before, after)})"
    if found["same"]:
        out.line(f"The same bytes: {amounts.size(before)}", "green")
        return
    out.line(f"{found['before']} → {found['after']}: {sizes}", "bold")
    for method in found["methods"]:
        out.heading(f"Method {method['name']}: {method['change']}")
        for line in _method_lines(method):
            out.line(f"  {line}")
    if found["data"]:
        out.heading(f"Data ({_summary(found['data'])})")
        rows = [_cells(row) for row in found["data"][:100]]
        styles = [_STYLES.get(row["change"], "") for row in found["data"]]
        columns = ["what", "before", "after", "change", "bytes that differ", "tensor", "name"]
        out.table(columns, rows, numbers=[1, 2, 3, 4], styles=styles)
        if len(found["data"]) > 100:
            out.line(f"and {len(found['data']) - 100} more; --json has all")
    if found["other"]:
        out.heading("Besides")
        for line in found["other"]:
            out.line(f"  {line}")


def _summary(rows: Sequence[Mapping[str, Any]]) -> str:
    kinds = [row["change"] for row in rows]
    return ", ".join(f"{kinds.count(k)} {k}" for k in dict.fromkeys(sorted(kinds)))


def _cells(row: Mapping[str, Any]) -> list[str]:
    was = f" (was {amounts.shortened(row['before_name'])})" if "before_name" in row else ""
    return [
        row["change"],
        amounts.size(row["before"]) if row["change"] != "added" else "–",
        amounts.size(row["after"]) if row["change"] != "removed" else "–",
        amounts.change(row["before"], row["after"]),
        str(row.get("bytes_that_differ", "–")),
        amounts.shape(row["dtype"], row["shape"]),
        amounts.shortened(row["name"]) + was,
    ]


def _method_lines(method: Mapping[str, Any]) -> Iterator[str]:
    for key in ("inputs", "outputs"):
        if key in method:
            yield f"{key}: {_values(method[key]['before'])} → {_values(method[key]['after'])}"
    for key in ("delegates", "instructions"):
        if key in method:
            yield f"{key}: {method[key]['before']} → {method[key]['after']}"
    if "memory" in method:
        before, after = sum(method["memory"]["before"]), sum(method["memory"]["after"])
        yield f"planned memory: {amounts.size(before)} → {amounts.size(after)}"
    for key in ("backends", "operators"):
        if key in method:
            signs = [f"+{n}" for n in method[key]["added"]]
            signs += [f"−{n}" for n in method[key]["removed"]]
            yield f"{key}: {', '.join(signs)}"


def _values(values: Sequence[Mapping[str, Any]]) -> str:
    parts = [amounts.shape(v.get("dtype", ""), v.get("shape", [])) or v["kind"] for v in values]
    return ", ".join(parts) or "–"
