"""EtReport: the contents of a program, as JSON and as one self-contained page.

Contract: `etreport.program --label L --lowered DIR --timings JSON --summary JSON --json OUT
--html OUT`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etlink import delegated
from etlink.container import REBUILD, write_text
from etlink.json_file import fields_of, read_object, write_json
from etlink.lowered import Index, Lowered

from etreport import contents, page


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the report."""
    parser = ToolParser(prog="etreport.program", description=__doc__)
    parser.add_argument("--label", required=True, help="the program")
    for name in ("lowered", "timings", "summary", "json", "html"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args(arguments)
    index = Lowered(options.lowered).index
    files = (options.lowered / "lowering.json", options.timings, options.summary)
    parts = [read_object(file, "is not part of a report", REBUILD) for file in files]
    names = ", ".join(file.name for file in files)
    with fields_of(f"{options.label}: {names}: one of them", REBUILD):
        report = describe(options.label, index, *parts)
        html = page.of_program(report)
    write_json(options.json, report)
    write_text(options.html, html)


def describe(
    label: str,
    index: Index,
    lowering: dict[str, Any],
    run: dict[str, Any],
    linked: dict[str, Any],
) -> dict[str, Any]:
    """The report as one JSON object.

    Args:
      label: the program.
      index: of the lowered program.
      lowering: recipe, unquantized layers and delegation, as EtLower writes them.
      run: seconds per stage, peak memory and accuracy of quantization of this lowering; may differ
        from run to run.
      linked: EtLink's summary.
    """
    blobs = {n.sha256: n.size for n in index.named_data}
    return {
        "label": label,
        "model": lowering["model"],
        "notes": lowering["notes"],
        "recipe": lowering["recipe"],
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
        "not_quantized": lowering["not_quantized"],
        "quantized_layers": lowering["quantized_layers"],
        "delegation": delegated.describe(lowering["delegation"]),
        "without_kernel": lowering["without_kernel"],
        "accuracy": run.get("accuracy", {}),
        "largest": _largest(index),
        "contents": contents.of_program(index, linked),
        "lowering": {
            **{key: run[key] for key in ("stages", "peak_memory_bytes")},
            "path": run.get("path", {}),
        },
    }


def duplicated(index: Index) -> list[dict[str, Any]]:
    """Backends that keep weights in their payloads, where several methods delegate to them.

    XNNPACK, Vulkan and portable operators load a weight by its key, so that methods share it; TOSA,
    VGF and Ethos-U compile it into the payload of each method.

    Returns:
      Per backend: its name, payload bytes by method, and the bytes beyond the largest method's.
    """
    sizes: dict[str, dict[str, int]] = {}
    seen: dict[str, set[str]] = {}
    for method in index.methods:
        for backend, payloads in method["payloads"].items():
            if payloads["named_data"]:
                continue
            blobs = {b: s for b, s in payloads["blobs"].items() if b not in seen.get(backend, ())}
            seen.setdefault(backend, set()).update(blobs)
            sizes.setdefault(backend, {})[method["name"]] = sum(blobs.values())
    return [
        {
            "backend": backend,
            "methods": methods,
            "bytes": sum(methods.values()) - max(methods.values()),
        }
        for backend, methods in sorted(sizes.items())
        if len([size for size in methods.values() if size]) > 1
    ]


def _largest(index: Index, most: int = 20) -> list[dict[str, Any]]:
    names = {t.buffer: t.name for t in index.tensors}
    data = [{"name": n.key, "kind": "named data", "bytes": n.size} for n in index.named_data]
    data += [
        {"name": names.get(c.buffer, f"constant {c.buffer}"), "kind": "constant", "bytes": c.size}
        for c in index.constants
    ]
    return sorted(data, key=lambda d: (-d["bytes"], d["name"]))[:most]


if __name__ == "__main__":
    sys.exit(main())
