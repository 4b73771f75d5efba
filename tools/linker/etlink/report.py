"""EtReport: what a program consists of, as JSON and as one self-contained page.

Contract: `etlink.report --label L --lowered DIR --facts JSON --summary JSON --json OUT --html OUT`
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from etbuild.errors import BuildError

from etlink import delegated
from etlink.container import REBUILD, write_text
from etlink.json_file import fields_of, read_object
from etlink.lowered import Index, Lowered


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the report; returns the exit code."""
    parser = argparse.ArgumentParser(prog="etlink.report", description=__doc__)
    parser.add_argument("--label", required=True, help="the program")
    for name in ("lowered", "facts", "summary", "json", "html"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        index = Lowered(options.lowered).index
        files = (options.lowered / "facts.json", options.facts, options.summary)
        read = [read_object(file, "is no part of a report", REBUILD) for file in files]
        with fields_of(
            f"{options.label}: {', '.join(f.name for f in files)}: one of them", REBUILD
        ):
            report = make(options.label, index, *read)
            html = _page(report)
        write_text(options.json, json.dumps(report, indent=1, sort_keys=True) + "\n")
        write_text(options.html, html)
    except BuildError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0


def make(
    label: str,
    index: Index,
    facts: dict[str, Any],
    run: dict[str, Any],
    linked: dict[str, Any],
) -> dict[str, Any]:
    """The report as one JSON object.

    Args:
      label: the program.
      index: of the lowered program.
      facts: what the exporter saw: recipe, layers that it left alone, what was delegated.
      run: seconds per stage, peak memory and accuracy of quantisation in this lowering; may differ
        from run to run.
      linked: what EtLink wrote.
    """
    blobs = {n.blob: n.size for n in index.named_data}
    return {
        "label": label,
        "model": facts["model"],
        "recipe": facts["recipe"],
        "versions": index.versions,
        "methods": list(index.methods),
        "bytes": {
            "program": linked["program_bytes"],
            "data": linked["data_bytes"],
            "own": linked["program_bytes"] + linked["data_bytes"],
            "shared": sum(s["bytes"] for s in linked["shared"]),
            "named_data": sum(blobs.values()),
            "constants": sum(c.size for c in index.constants),
            "delegates": sum(s.size for s in index.segments if s.kind == "delegate"),
        },
        "shared": linked["shared"],
        "unused_shared_data": linked["unused"],
        "not_shared": linked["unshared"],
        "duplicated": duplicated(index),
        "weight_cache": linked["manifest"]["weight_cache"],
        "not_quantised": facts["not_quantised"],
        "quantised_layers": facts["quantised_layers"],
        "delegation": delegated.described(facts["delegation"]),
        "accuracy": run.get("accuracy", {}),
        "largest": _largest(index),
        "lowering": {key: run[key] for key in ("stages", "peak_memory_bytes")},
    }


def duplicated(index: Index) -> list[dict[str, Any]]:
    """Backends that keep weights in their payloads, where several methods delegate to them.

    XNNPACK, Vulkan and portable operators load a weight by its key, so that methods share it; TOSA,
    VGF and Ethos-U compile it into the payload of each method.

    Returns:
      Per backend: its name, payload bytes by method, and the bytes beyond the largest method's.
    """
    found: dict[str, dict[str, int]] = {}
    seen: dict[str, set[str]] = {}
    for method in index.methods:
        for backend, payloads in method["payloads"].items():
            if payloads["named_data"]:
                continue
            blobs = {b: s for b, s in payloads["blobs"].items() if b not in seen.get(backend, ())}
            seen.setdefault(backend, set()).update(blobs)
            found.setdefault(backend, {})[method["name"]] = sum(blobs.values())
    return [
        {
            "backend": backend,
            "methods": methods,
            "bytes": sum(methods.values()) - max(methods.values()),
        }
        for backend, methods in sorted(found.items())
        if len([size for size in methods.values() if size]) > 1
    ]


def _largest(index: Index, most: int = 20) -> list[dict[str, Any]]:
    names = {t.buffer: t.name for t in index.tensors}
    found = [{"name": n.key, "kind": "named data", "bytes": n.size} for n in index.named_data]
    found += [
        {"name": names.get(c.buffer, f"constant {c.buffer}"), "kind": "constant", "bytes": c.size}
        for c in index.constants
    ]
    return sorted(found, key=lambda f: (-f["bytes"], f["name"]))[:most]


def page(report: dict[str, Any]) -> str:
    """The report as an HTML page without references to anything outside of it."""
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["bytes"] = human_bytes
    environment.filters["flops"] = human_flops
    environment.filters["percent"] = _percent
    template = Path(__file__).with_name("report.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(template).render(report=report)


def _page(report: dict[str, Any]) -> str:
    """As `page`; a member that is missing is an error as it is anywhere else."""
    try:
        return page(report)
    except jinja2.TemplateError as error:
        raise ValueError(error) from error


def human_bytes(count: int) -> str:
    """Bytes for people: "1.5 MB"."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return str(count)


def human_flops(count: int) -> str:
    """Floating-point operations for people: "1.5 GFLOP"."""
    number = float(count)
    for unit in ("", "k", "M", "G", "T"):
        if number < 1000 or unit == "T":
            return f"{number:.1f} {unit}FLOP" if unit else f"{count} FLOP"
        number /= 1000
    return str(count)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1f}%"


if __name__ == "__main__":
    sys.exit(main())
