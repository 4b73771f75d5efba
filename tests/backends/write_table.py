"""Writes docs/reference/recipes.md: `write_table MATRIX.json RECORD.json OUTPUT`."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HEAD = """\
# Recipes by backend

This page lists all built-in recipes with their options, and what became of three models with each:
a convolutional classifier, an MLP, and two layers of SmolLM2 ("Llama": one token, with a KV cache).
Recipes of `targets` lower only the classifier. Set options with
`et_recipe(base = …, options = …)`: see [quantize and write recipes](../howto/recipes.md).

`bazel run //tests/backends:record` lowers and runs the programs, and records the figures.
`bazel run //tests/backends:update_docs` generates this page.

| column | meaning |
|---|---|
| ran in | what ran the program on Linux, in a test; –: only a reader opened its payload |
| SQNR | least signal-to-noise ratio of an output against the eager model, as measured |
| lowering, run | processor time of the lowering, and of all test cases; *: clock, busy machine |
| bytes | of the `.pte` |

[Test an accelerator's program without the accelerator](../howto/accelerators.md) says what a run in
an emulator shows.

"""

_NETS = {"conv": "conv", "mlp": "MLP", "llama": "Llama"}

# The devices that programs of a backend are for.
_DEVICES = {
    "arm": "Ethos-U; GPUs with Vulkan's machine learning extensions (VGF); tools that read TOSA",
    "cadence": "Cadence's DSPs",
    "coreai": "Apple's devices; the runtime is for macOS and iOS only",
    "coreml": "Apple's CPUs, GPUs and Neural Engines; the runtime is for macOS and iOS only",
    "cortex_m": "Cortex-M with CMSIS-NN",
    "cuda": "NVIDIA's GPUs",
    "mediatek": "MediaTek's NPUs",
    "mlx": "Macs, tested with MLX for CPUs",
    "mps": "Apple's GPUs, with runtimes of ExecuTorch 1.4 and older: its successor is Core ML",
    "nxp": "NXP's Neutron NPUs",
    "openvino": "Intel's CPUs, GPUs and NPUs",
    "portable": "all platforms",
    "qualcomm": "Qualcomm's NPUs",
    "samsung": "Samsung's NPUs",
    "targets": "the device in the name; combinations of the recipes above",
    "vulkan": "GPUs with Vulkan",
    "xnnpack": "CPUs",
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


def table(rows: list[dict[str, Any]], record: Mapping[str, Mapping[str, Any]]) -> str:
    """The page.

    Args:
      rows: of the matrix.
      record: entries by name of a program.
    """
    text, reasons = [_HEAD], []
    for backend in sorted({row["backend"] for row in rows}):
        own = [row for row in rows if row["backend"] == backend]
        text.append(f"## {backend}\n\nFor {_DEVICES[backend]}.\n\n")
        text.append("| recipe | description |\n|---|---|\n")
        for row in own:
            text.append(f"| `//backends/{backend}:{row['recipe']}` | {_summary(row)} |\n")
        # Recipes by device have their parts' options.
        text.append("\n" + (_options(own) if backend != "targets" else ""))
        text.append("| recipe | model | ran in | SQNR | lowering | run | bytes |\n")
        text.append("|---|---|---|---|---|---|---|\n")
        for row in own:
            text += _results(row, record, reasons)
        text.append("\n")
    if reasons:
        text.append("## Not lowered\n\n")
        text += [f"{number}. {reason}\n" for number, reason in enumerate(reasons, 1)]
    return "".join(text).rstrip("\n") + "\n"


def _results(
    row: dict[str, Any], record: Mapping[str, Mapping[str, Any]], reasons: list[str]
) -> list[str]:
    """A line for each net; nets that failed alike share one."""
    by_cells: dict[str, list[str]] = {}
    for net, result in row["nets"].items():
        if result in ("ran", "lowered"):
            cells = _measured(record.get(f"{net}_{row['backend']}_{row['recipe']}", {}))
        else:
            if result not in reasons:
                reasons.append(result)
            cells = f"not lowered ({reasons.index(result) + 1}) | – | – | – | –"
        by_cells.setdefault(cells, []).append(_model(row, net))
    return [
        f"| `{row['recipe']}` | {', '.join(models)} | {cells} |\n"
        for cells, models in by_cells.items()
    ]


def _model(row: dict[str, Any], net: str) -> str:
    """A net's name, with the options of the recipe that it was lowered with."""
    options = row["llama_options"] if net == "llama" else {}
    given = ", ".join(f"`{name} = {value}`" for name, value in sorted(options.items()))
    return f"{_NETS[net]}, with {given}" if given else _NETS[net]


def _measured(entry: Mapping[str, Any]) -> str:
    """The cells of a program that was lowered."""
    if not entry:
        return "not recorded | – | – | – | –"
    lowering, run = (_time(entry, name) for name in ("lower", "run"))
    if "runs_in" not in entry:
        return f"– | – | {lowering} | – | {entry['bytes']:,}"
    ratio = "equal" if entry["sqnr_db"] is None else f"{entry['sqnr_db']:.1f} dB"
    return f"{entry['runs_in']} | {ratio} | {lowering} | {run} | {entry['bytes']:,}"


def _time(entry: Mapping[str, Any], name: str) -> str:
    """Processor time, or else what was recorded before that was measured."""
    cpu, wall = entry.get(f"{name}_cpu_seconds"), entry.get(f"{name}_seconds")
    if cpu is None:
        return "–" if wall is None else f"{_seconds(wall)}*"
    return _seconds(cpu)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{1000 * seconds:.1f} ms"


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
    """Reads the matrix and the record, writes the page."""
    matrix, record, output = map(Path, sys.argv[1:4])
    rows = json.loads(matrix.read_text(encoding="utf-8"))["rows"]
    programs = json.loads(record.read_text(encoding="utf-8"))["programs"]
    output.write_text(table(rows, programs), encoding="utf-8")


if __name__ == "__main__":
    main()
