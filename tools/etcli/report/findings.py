"""Warnings on a program: what a reader of its report should look at first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from etbuild.errors import listed
from etlink.amounts import human_bytes, human_flops, human_percent

# In per cent of the FLOPs; less is worth a warning.
LITTLE_DELEGATED = 50.0
# In dB; 20 dB are a tenth of noise.
LOW_SQNR_DB = 20.0
# Bytes of program-owned data; less is not worth a warning on sharing.
_LITTLE = 100_000


def findings(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """Warnings on a program, the gravest first.

    Args:
      report: as `program.describe` returns it.

    Returns:
      Per warning its `text` and the `section` of the page that has more.
    """
    return [{"text": text, "section": section} for text, section in _all(report)]


def _all(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if report["weight_cache"].get("reasons"):
        reasons = "; ".join(report["weight_cache"]["reasons"])
        yield f"XNNPACK's weight cache must stay off: {reasons}.", "bytes"
    operators = sorted({call["operator"] for call in report["without_kernel"]})
    if operators:
        yield (
            f"The app has to register {', '.join(operators)}: ExecuTorch has no kernels for them.",
            "delegation",
        )
    yield from _accuracy(report["accuracy"])
    yield from _delegation(report["delegation"])
    names = sorted(report["not_quantized"])
    if names:
        number = "A layer was" if len(names) == 1 else f"{len(names)} layers were"
        yield f"{number} left unquantized: {listed(names)}.", "unquantized"
    for item in report["duplicated"]:
        methods = ", ".join(f"{n} {human_bytes(s)}" for n, s in sorted(item["methods"].items()))
        yield (
            f"{item['backend']} reads weights from its payloads only, so each method stores its "
            f"own: {methods}. {human_bytes(item['bytes'])} of that are bytes that another method "
            "has, too.",
            "bytes",
        )
    for label in report["unused_shared_data"]:
        yield f"{label} is not loaded: the other shared files hold its data.", "sharing"
    rest = sum(item["bytes"] for item in report["not_shared"])
    if report["shared"] and rest > max(_LITTLE, report["bytes"]["shared"]):
        yield f"More data is the program's own ({human_bytes(rest)}) than is shared.", "sharing"
    for note in report["notes"]:
        yield note, "methods"


def _accuracy(methods: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, method in sorted(methods.items()):
        if "skipped" in method:
            yield f"{name} was not compared with the eager model: {method['skipped']}", "accuracy"
            continue
        for number, output in enumerate(method["outputs"]):
            ratio = output["sqnr_db"]
            if ratio is not None and ratio < LOW_SQNR_DB:
                yield (
                    f"Quantization leaves {ratio:.1f} dB in output {number} of {name}; 20 dB are a "
                    "tenth of noise.",
                    "accuracy",
                )
        for part in method.get("weak", ()):
            yield f"Output {part['output']} of {name}, {part['text']}.", "accuracy"


def _delegation(methods: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, method in sorted(methods.items()):
        share = method["delegated"]["flops_percent"]
        if not method["delegates"] or share is None or share >= LITTLE_DELEGATED:
            continue
        left = method["left"][0]["operator"] if method["left"] else ""
        most = f"; most of the rest is {left}" if left else ""
        yield (
            f"{human_percent(share)} of {human_flops(method['flops'])} in {name} are "
            f"delegated{most}.",
            "delegation",
        )
