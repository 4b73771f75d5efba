"""What a program consists of, and what was seen while it was lowered, as one JSON object."""

from __future__ import annotations

from typing import Any

from etlink import delegated
from etlink.lowered import Index

from etreport import contents


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
      run: seconds per stage, peak memory and accuracy of quantization in this lowering; may differ
        from run to run.
      linked: what EtLink wrote.
    """
    blobs = {n.sha256: n.size for n in index.named_data}
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
        "not_quantized": facts["not_quantized"],
        "quantized_layers": facts["quantized_layers"],
        "delegation": delegated.describe(facts["delegation"]),
        "without_kernel": facts["without_kernel"],
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
