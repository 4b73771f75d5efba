"""Benchmark: bytes of a language model with and without a foundation, and of what caches hold.

`./bazelw run //tests/bench:sizes -- [--json FILE]`

It builds SmolLM2-135M in 4 bits: the program alone, then a base and two tasks on one foundation.
Sizes do not depend on the machine or its load.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import actions

_PROGRAM = "//models:llama_xnnpack"
_SHARED = "//models/tasks:llama_int4_"
_PARTS = ("foundation", "base", "assistant", "summarizer")


def main() -> None:
    """Builds the targets; prints and writes their sizes."""
    parser = argparse.ArgumentParser(prog="sizes", description=__doc__)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    shared: dict[str, int] = {}
    for part in _PARTS:
        # An index is for the linker; programs do not load it.
        files = [file for file in _built(_SHARED + part) if file.suffix in (".pte", ".ptd")]
        shared |= {part + file.suffix: file.stat().st_size for file in files}
    figures: dict[str, Any] = {
        "program": _PROGRAM,
        "program_bytes": _total(_built(_PROGRAM))["bytes"],
        "lowered_bytes": _total(_built(_PROGRAM, "--output_groups=lowered"))["bytes"],
        "environment": _total([_environment()]),
        "shared": shared,
    }
    for name, value in figures.items():
        print(f"{name}: {value}")
    actions.write_json(options.json, figures)


def _built(target: str, *flags: str) -> list[Path]:
    """Builds a target; returns its outputs, files and folders."""
    bazel, workspace = str(actions.workspace() / "bazelw"), actions.workspace()
    actions.run([bazel, "build", *flags, target], workspace)
    names = actions.run([bazel, "cquery", *flags, "--output=files", target], workspace)
    root = Path(actions.run([bazel, "info", "execution_root"], workspace).strip())
    return [root / name for name in names.split()]


def _environment() -> Path:
    """The folder with the exporter's packages."""
    [stamp] = _built("@executorch_exporter//:environment.json")
    return stamp.parent.resolve()


def _total(paths: list[Path]) -> dict[str, int]:
    """Number and bytes of files, also of those in folders; links count nothing."""
    found = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    sizes = [file.stat().st_size for file in found if file.is_file() and not file.is_symlink()]
    return {"files": len(sizes), "bytes": sum(sizes)}


if __name__ == "__main__":
    main()
