"""`et diff`: what changed from one file to another, in bytes and tensors."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from etlink import pte, tables
from etlink.amounts import human_bytes, human_change, human_tensor
from etlink.container import Piece, chunks, sha256_of

from etcli import paths
from etcli.command import Outcome
from etcli.console import Printer, bar, shortened
from etcli.files import bundled_file, contents, inspection
from etcli.files.explain import MOST, explain
from etcli.files.programs import of_fields

# Where data lie in a file follows from their sizes, which are compared themselves.
_LAYOUT = ("program.segments", "program.constantSegment", "program.namedData")
_STYLES = {"added": "green", "removed": "red", "changed": "yellow", "renamed": "cyan"}
# As many rows as the table of data has.
_SHOWN = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("before", metavar="A", help="file or folder")
    parser.add_argument("after", metavar="B", help="file or folder of the same kind")


def command(options: argparse.Namespace) -> Outcome:
    """Compares two files or folders; exit code 1: they differ."""
    result = compare(paths.existing(options.before), paths.existing(options.after))
    return Outcome(result, lambda out: show(result, out), code=0 if result["same"] else 1)


def compare(before: Path, after: Path) -> dict[str, Any]:
    """Compares two files of one kind, or two folders.

    Returns:
      "same", "bytes" of both; for programs and data files "data" and "methods" that differ;
      "other": sentences on all else.

    Raises:
      BuildError: one of them is damaged.
    """
    whole: dict[str, Any] = {
        "before": before.name,
        "after": after.name,
        "same": sha256_of(before) == sha256_of(after),
        "bytes": {"before": _size(before), "after": _size(after)},
        "data": [],
        "methods": [],
        "other": [],
    }
    if whole["same"]:
        return whole
    titles = [paths.titles_beside(p) for p in (before, after)]
    # With the names of one file alone, each name would be new.
    titles = titles if all(titles) else [{}, {}]
    kinds = [None if p.is_dir() else inspection.kind_of(p) for p in (before, after)]
    if kinds == [inspection.PROGRAM] * 2:
        return whole | _of_programs(pte.read(before), pte.read(after), titles)
    if kinds == [inspection.DATA_FILE] * 2:
        data = inspection.data_of_file(before), inspection.data_of_file(after)
        return whole | {"data": _of_data(*map(_titled, data, titles))}
    if kinds == [inspection.BUNDLE] * 2:
        return whole | _of_bundles(bundled_file.read(before), bundled_file.read(after))
    return whole | {"other": explain(before, after)}


def _size(path: Path) -> int:
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    return sum(p.stat().st_size for p in files)


def _of_bundles(before: bundled_file.Bundled, after: bundled_file.Bundled) -> dict[str, Any]:
    with before.program_file() as first, after.program_file() as second:
        differences = _of_programs(first, second)
    if before.cases != after.cases:
        differences["other"].append("the test cases differ: inputs or expected outputs")
    return differences


def _titled(data: Sequence[contents.Datum], titles: Mapping[str, str]) -> list[contents.Datum]:
    """Data by names of weights instead of hashes, which change with the bytes."""
    return [dataclasses.replace(d, name=titles.get(d.name, d.name)) for d in data]


def _of_programs(
    before: pte.ProgramFile,
    after: pte.ProgramFile,
    titles: Sequence[Mapping[str, str]] = ({}, {}),
) -> dict[str, Any]:
    lines = of_fields("program", before.program, after.program)
    fields = list(itertools.islice((f for f in lines if not f.startswith(_LAYOUT)), MOST + 1))
    return {
        "data": _of_data(*map(_titled, map(contents.data_of, (before, after)), titles)),
        "methods": list(_of_methods(before.program, after.program)),
        "other": fields if len(fields) <= MOST else [*fields[:MOST], "… and more"],
    }


def _of_methods(old: Any, new: Any) -> Iterator[dict[str, Any]]:
    """Methods that were added, removed, or differ in what a caller or a runtime sees."""
    first = {m["name"]: m for m in tables.describe_methods(old)}
    second = {m["name"]: m for m in tables.describe_methods(new)}
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


def _of_data(old: Sequence[contents.Datum], new: Sequence[contents.Datum]) -> list[dict[str, Any]]:
    """Data that differ, those with the largest change of bytes first."""
    with bar("Comparing", sum(d.piece.size for d in [*old, *new])) as advance:
        first = {d.name: (d, sha256_of(d.piece, advance)) for d in old}
        second = {d.name: (d, sha256_of(d.piece, advance)) for d in new}
    removed = {sha256: name for name, (_, sha256) in first.items() if name not in second}
    rows = []
    for name in {*first, *second}:
        before, hash_before = first.get(name, (None, ""))
        after, hash_after = second.get(name, (None, ""))
        if hash_before == hash_after and before and after and before.shape == after.shape:
            continue
        if after and not before and hash_after in removed:
            before_name = removed[hash_after]
            row = _row("renamed", name, first[before_name][0], after)
            rows.append(row | {"before_name": before_name})
            continue
        change = "changed" if before and after else "added" if after else "removed"
        row = _row(change, name, before, after)
        if before and after and hash_before == hash_after:
            row["change"] = "reshaped"
        if before and after and before.piece.size == after.piece.size:
            row["bytes_that_differ"] = _differing(before.piece, after.piece)
        rows.append(row)
    renamed = {row["before_name"] for row in rows if "before_name" in row}
    rows = [r for r in rows if not (r["change"] == "removed" and r["name"] in renamed)]
    return sorted(rows, key=lambda r: (-abs(r["after"] - r["before"]), r["name"]))


def _row(
    change: str, name: str, before: contents.Datum | None, after: contents.Datum | None
) -> dict[str, Any]:
    datum = after or before
    assert datum is not None
    return {
        "change": change,
        "name": name,
        "kind": datum.kind,
        "dtype": datum.dtype,
        "shape": list(datum.shape),
        "before": before.piece.size if before else 0,
        "after": after.piece.size if after else 0,
    }


def _differing(old: Piece, new: Piece) -> int:
    """Counts the bytes that differ between pieces of one size."""
    count = 0
    for first, second in zip(chunks(old), chunks(new), strict=True):
        if first != second:
            both = int.from_bytes(first, "little") ^ int.from_bytes(second, "little")
            count += len(first) - both.to_bytes(len(first), "little").count(0)
    return count


def show(result: Mapping[str, Any], out: Printer) -> None:
    """Prints what `compare` returned."""
    before, after = result["bytes"]["before"], result["bytes"]["after"]
    sizes = f"{human_bytes(before)} → {human_bytes(after)} ({human_change(before, after)})"
    if result["same"]:
        out.line(f"The same bytes: {human_bytes(before)}", "green")
        return
    out.line(f"{result['before']} → {result['after']}: {sizes}", "bold")
    for method in result["methods"]:
        out.heading(f"Method {method['name']}: {method['change']}")
        for line in _method_lines(method):
            out.line(f"  {line}")
    if result["data"]:
        out.heading(f"Data ({_summary(result['data'])})")
        rows = [_cells(row) for row in result["data"][:_SHOWN]]
        styles = [_STYLES.get(row["change"], "") for row in result["data"]]
        columns = ["what", "before", "after", "change", "bytes that differ", "tensor", "name"]
        out.table(columns, rows, numbers=[1, 2, 3, 4], styles=styles)
        if len(result["data"]) > _SHOWN:
            out.line(f"and {len(result['data']) - _SHOWN} more; --json has all")
    if result["other"]:
        out.heading("Besides")
        for line in result["other"]:
            out.line(f"  {line}")


def _summary(rows: Sequence[Mapping[str, Any]]) -> str:
    kinds = [row["change"] for row in rows]
    return ", ".join(f"{kinds.count(k)} {k}" for k in dict.fromkeys(sorted(kinds)))


def _cells(row: Mapping[str, Any]) -> list[str]:
    was = f" (was {shortened(row['before_name'])})" if "before_name" in row else ""
    return [
        row["change"],
        human_bytes(row["before"]) if row["change"] != "added" else "–",
        human_bytes(row["after"]) if row["change"] != "removed" else "–",
        human_change(row["before"], row["after"]),
        str(row.get("bytes_that_differ", "–")),
        human_tensor(row["dtype"], row["shape"]),
        shortened(row["name"]) + was,
    ]


def _method_lines(method: Mapping[str, Any]) -> Iterator[str]:
    for key in ("inputs", "outputs"):
        if key in method:
            before, after = (inspection.values(method[key][k]) for k in ("before", "after"))
            yield f"{key}: {before} → {after}"
    for key in ("delegates", "instructions"):
        if key in method:
            yield f"{key}: {method[key]['before']} → {method[key]['after']}"
    if "memory" in method:
        before, after = sum(method["memory"]["before"]), sum(method["memory"]["after"])
        yield f"planned memory: {human_bytes(before)} → {human_bytes(after)}"
    for key in ("backends", "operators"):
        if key in method:
            signs = [f"+{n}" for n in method[key]["added"]]
            signs += [f"−{n}" for n in method[key]["removed"]]
            yield f"{key}: {', '.join(signs)}"
