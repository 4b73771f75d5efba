"""Writes docs/reference/recipes.md from the matrix: `write_table MATRIX.json OUTPUT`."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

_HEAD = """\
# Recipes by backend

This page lists all built-in recipes with their options, and what was tested with each.
`bazel run //tests/backends:update_docs` generates it from the targets.

| entry | meaning |
|---|---|
| ran, N dB | ran on Linux, with a signal-to-noise ratio of N dB or more against the eager model |
| lowered | lowered, and a reader of the format opened its payload |
| – | not lowered, for the numbered reason |

Tests lower three models with each recipe: a convolutional classifier, an MLP, and two layers of
SmolLM2 ("Llama": one token, with a KV cache). Recipes of `targets` lower only the classifier. The
first result is that of all models that the row does not name. Set options with
`et_recipe(base = …, options = …)`: see [quantize and write recipes](../howto/recipes.md).

"""

_NETS = {"conv": "conv", "mlp": "MLP", "llama": "Llama"}

# Where programs of a backend run, and whether tests run them.
_RUNS = {
    "arm": "TOSA: Arm's reference model, tested; VGF: GPUs, tested with Arm's layers for Vulkan on "
    "a CPU; Ethos-U: its hardware",
    "cadence": "Cadence's DSPs, tested by upstream's references of the kernels",
    "coreai": "Apple's devices; not tested: no runtime for Linux",
    "coreml": "Apple's devices: CPU, GPU and Neural Engine; not tested",
    "cortex_m": "Cortex-M with CMSIS-NN, tested by upstream's references of the kernels",
    "cuda": "NVIDIA's GPUs",
    "mediatek": "MediaTek's NPUs",
    "mlx": "Macs, tested with MLX for CPUs",
    "mps": "Apple's GPUs, with runtimes of ExecuTorch 1.4 and older: its successor is Core ML",
    "nxp": "NXP's Neutron NPUs",
    "openvino": "Intel's CPUs, tested; GPUs and NPUs: their hardware",
    "portable": "all platforms, tested",
    "qualcomm": "Qualcomm's NPUs, tested with Qualcomm's simulator on a CPU",
    "samsung": "Samsung's NPUs",
    "targets": "the device in the name; combine the recipes above, tested with the convolutions",
    "vulkan": "GPUs with Vulkan, tested with Android's runtime (1.3.1) on a Vulkan driver for CPUs",
    "xnnpack": "CPUs, tested",
}


def _summary(row: dict[str, Any]) -> str:
    """The first sentence of the builder's docstring."""
    if row["parts"]:
        return " + ".join(row["parts"])
    module, _, function = row["builder"].partition(":")
    name = module.split(".")[-1] + ".py"
    for path in row["sources"]:
        if Path(path).name == name:
            for node in ast.parse(Path(path).read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef) and node.name == function:
                    text = ast.get_docstring(node) or ""
                    return " ".join(text.split("\n\n")[0].split()).rstrip(".")
    return ""


def _option(name: str, kind: str) -> str:
    return f"`{name}`: " + kind.replace("|", ", ")


def table(rows: list[dict[str, Any]]) -> str:
    """The page.

    Args:
      rows: of the matrix.
    """
    text, reasons = [_HEAD], []
    for backend in sorted({row["backend"] for row in rows}):
        own = [row for row in rows if row["backend"] == backend]
        text.append(f"## {backend}\n\nRuns on: {_RUNS[backend]}.\n\n")
        text.append("| recipe | description | result |\n|---|---|---|\n")
        for row in own:
            label = f"`//backends/{backend}:{row['recipe']}`"
            text.append(f"| {label} | {_summary(row)} | {_result(row, reasons)} |\n")
        # Recipes by device have their parts' options.
        text.append("\n" + (_options(own) if backend != "targets" else ""))
    if reasons:
        text.append("## Not lowered\n\n")
        text += [f"{number}. {reason}\n" for number, reason in enumerate(reasons, 1)]
    return "".join(text).rstrip("\n") + "\n"


def _result(row: dict[str, Any], reasons: list[str]) -> str:
    """Sums up all nets: "lowered", or "lowered; Llama: – (1)" where one differs."""
    cells = {_NETS[net]: _cell(row, net, reasons) for net in _NETS if net in row["nets"]}
    first = next(iter(cells.values()))
    others = [f"{net}: {cell}" for net, cell in cells.items() if cell != first]
    return "; ".join([first, *others])


def _cell(row: dict[str, Any], net: str, reasons: list[str]) -> str:
    """Describes a net's result; a reason that isn't known yet is added to the reasons."""
    result: str = row["nets"][net]
    if result in ("ran", "lowered"):
        options = row["llama_options"] if net == "llama" else {}
        if result == "ran":
            result += f", {row['sqnr_db'][net]} dB"
        given = ", ".join(f"`{name} = {value}`" for name, value in sorted(options.items()))
        return f"{result}, with {given}" if given else result
    if result not in reasons:
        reasons.append(result)
    return f"– ({reasons.index(result) + 1})"


def _options(rows: list[dict[str, Any]]) -> str:
    common = set.intersection(*(set((row["options"] or {}).items()) for row in rows))
    lines = []
    if common:
        lines.append("Options: " + "; ".join(_option(*item) for item in sorted(common)) + ".\n\n")
    for row in rows:
        own = sorted(set((row["options"] or {}).items()) - common)
        if own:
            listed = "; ".join(_option(*item) for item in own)
            lines.append(f"- `{row['recipe']}` takes {'also ' if common else ''}{listed}.\n")
    return "".join(lines) + ("\n" if lines and not lines[-1].endswith("\n\n") else "")


def main() -> None:
    """Reads the matrix, writes the page."""
    matrix, output = sys.argv[1:3]
    rows = json.loads(Path(matrix).read_text(encoding="utf-8"))["rows"]
    Path(output).write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
