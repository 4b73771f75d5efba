"""EtReport: the contents of a program, as JSON and as one self-contained page.

Contract: `etcli.report.program --label L --lowered DIR --timings JSON --summary JSON --json OUT
--html OUT`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etlink import delegated, estimates, schema
from etlink.container import REBUILD, write_text
from etlink.json_file import fields_of, read_object, write_json
from etlink.lowered import Index, Lowered
from etlink.tables import inline_payloads

from etcli.report import contents, equal_bytes, modules, page


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the report."""
    parser = ToolParser(prog="etcli.report.program", description=__doc__)
    parser.add_argument("--label", required=True, help="the program")
    for name in ("lowered", "timings", "summary", "json", "html"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args(arguments)
    lowered = Lowered(options.lowered)
    files = (options.lowered / "lowering.json", options.timings, options.summary)
    parts = [read_object(file, "is not part of a report", REBUILD) for file in files]
    names = ", ".join(file.name for file in files)
    with fields_of(f"{options.label}: {names}: one of them", REBUILD):
        report = describe(options.label, lowered, *parts)
        html = page.of_program(report)
    write_json(options.json, report)
    write_text(options.html, html)


def describe(
    label: str,
    lowered: Lowered,
    lowering: dict[str, Any],
    run: dict[str, Any],
    linked: dict[str, Any],
) -> dict[str, Any]:
    """The report as one JSON object.

    Args:
      label: the program.
      lowered: the program as it was lowered.
      lowering: recipe, unquantized layers, delegation and modules of calls, as EtLower writes them.
      run: seconds per stage, peak memory and accuracy of quantization of this lowering; may differ
        from run to run.
      linked: EtLink's summary.
    """
    index = lowered.index
    blobs = {n.sha256: n.size for n in index.named_data}
    (program,) = linked["manifest"]["programs"].values()
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
            "delegates": sum(contents.payload_bytes(index).values()),
        },
        "shared": linked["shared"],
        "unused_shared_data": linked["unused"],
        "not_shared": linked["unshared"],
        "duplicated": duplicated(lowered),
        "weight_cache": program["weight_cache"],
        "not_quantized": lowering["not_quantized"],
        "quantized_layers": lowering["quantized_layers"],
        "delegation": delegated.describe(lowering["delegation"]),
        "estimates": estimates.of_program(lowering["delegation"]),
        "without_kernel": lowering["without_kernel"],
        "accuracy": run.get("accuracy", {}),
        "largest": _largest(index),
        "contents": contents.of_program(index, linked),
        "modules": modules.of_program(index, lowering["calls"]),
        "lowering": {
            **{key: run[key] for key in ("stages", "peak_memory_bytes")},
            "path": run.get("path", {}),
        },
    }


def duplicated(lowered: Lowered) -> list[dict[str, Any]]:
    """Weights that backends store again in the payload of each method.

    XNNPACK, Vulkan and portable operators load a weight by its key, so that methods share it.
    Delegates such as OpenVINO, TOSA, VGF and Ethos-U read weights from their payload only, so that
    the linker can't store them once. Payloads that are equal as a whole are stored once.

    Args:
      lowered: the program.

    Returns:
      Per backend: its name, payload bytes by method, and how many bytes the methods have in common.
    """
    in_tables = inline_payloads(schema.unpack_program(lowered.program()))

    def payload(sha256: str) -> bytes:
        return in_tables[sha256] if sha256 in in_tables else lowered.blob(sha256)

    blobs: dict[str, dict[str, dict[str, int]]] = {}
    seen: set[str] = set()
    for method in lowered.index.methods:
        for backend, payloads in method["payloads"].items():
            if not payloads["named_data"]:
                new = {blob: size for blob, size in payloads["blobs"].items() if blob not in seen}
                seen.update(new)
                blobs.setdefault(backend, {})[method["name"]] = new
    found = [
        {
            "backend": backend,
            "methods": {name: sum(sizes.values()) for name, sizes in methods.items()},
            "bytes": equal_bytes.count(
                [payload(blob) for blob, size in sorted(sizes.items()) if size]
                for sizes in methods.values()
            ),
        }
        for backend, methods in sorted(blobs.items())
        if len([sizes for sizes in methods.values() if sizes]) > 1
    ]
    return [item for item in found if item["bytes"]]


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
