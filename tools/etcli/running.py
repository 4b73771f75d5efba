"""`et run`: runs a program on this machine, in a process that may crash."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etbundle.app import BINARY, MANIFEST
from etlink import merge

from etcli import amounts, bundled_file, inspection, places, process
from etcli.console import Printer, waiting

_MODULE = "etcli.execution"


@dataclass(frozen=True)
class Options:
    """How a program is run.

    Attributes:
      method: to run; empty: the only one, or "forward".
      data: .ptd files; without any those beside the program.
      inputs: .npy and .safetensors files.
      fill: what inputs without a file are filled with: "random", "ones" or "zeros".
      seed: of random numbers.
      repeat: how often.
      output: a .safetensors file to write the outputs to; empty: none.
      atol: absolute tolerance of a bundle's expected outputs.
      rtol: relative tolerance of these.
    """

    method: str = ""
    data: tuple[Path, ...] = ()
    inputs: tuple[Path, ...] = ()
    fill: str = "random"
    seed: int = 0
    repeat: int = 1
    output: str = ""
    atol: float = 1e-4
    rtol: float = 1e-4


def run(path: Path, options: Options) -> dict[str, Any]:
    """Runs a .pte, or the test cases of a .bpte.

    Returns:
      "load_seconds" and "runs"; of a bundle's each with "problems".

    Raises:
      BuildError: a file is damaged or missing, or the runtime refuses or crashes.
    """
    kind = inspection.checked_kind(path)
    if kind == inspection.DATA_FILE:
        raise BuildError(f"{path} is a data file, which can't be run.", "Give the program's .pte.")
    with tempfile.TemporaryDirectory(prefix="et-") as folder:
        if kind == inspection.BUNDLE:
            bundle = bundled_file.read(path)
            with bundle.program_file() as program:
                cases = [
                    {
                        "method": case.method,
                        "inputs": [_value(v) for v in case.inputs],
                        "outputs": [_value(v) for v in case.outputs],
                    }
                    for case in bundle.cases
                    if options.method in ("", case.method)
                ]
                if not cases:
                    raise BuildError(f'{path} has no test cases of the method "{options.method}".')
                return _start(path, program.path, None, options, cases, Path(folder))
        files = options.data or places.data_beside(path)
        manifest = places.manifest_beside(path)
        data = merge.checked(manifest, path, files, Path(folder))
        return _start(path, path, data, options, [], Path(folder))


def run_app(path: Path, arguments: Sequence[str]) -> int:
    """Starts an app's own binary.

    Returns:
      Its exit code.

    Raises:
      BuildError: the folder is no app, or one for another platform.
    """
    binary = path / BINARY
    if not (path / MANIFEST).is_file() or not binary.is_file():
        raise BuildError(
            f"{path} is no app: it has no {MANIFEST} and {BINARY}.",
            "Give the folder that an et_runner_app has made.",
        )
    try:
        return subprocess.run([str(binary), *arguments], check=False).returncode
    except OSError as error:
        raise BuildError(
            f"{binary} can't be started: {error.strerror}.", "Is the app for this platform?"
        ) from error


def missing(needs: Mapping[str, Any]) -> dict[str, Any]:
    """Backends and operators that this machine's runtime hasn't got.

    Args:
      needs: "backends" and "operators".
    """
    with tempfile.TemporaryDirectory(prefix="et-") as folder:
        return process.ask(_MODULE, {"command": "missing", **needs}, Path(folder), "the runtime")


def _start(
    path: Path,
    program: Path,
    data: Path | None,
    options: Options,
    cases: Sequence[Mapping[str, Any]],
    folder: Path,
) -> dict[str, Any]:
    request = {
        **asdict(options),
        "command": "run",
        "name": path.name,
        "program": str(program.absolute()),
        "data": str(data.absolute()) if data else "",
        "inputs": [str(p.absolute()) for p in options.inputs],
        "method": options.method or _default_method(program),
        "cases": cases,
    }
    with waiting(f"Running {path.name}"):
        return process.ask(_MODULE, request, folder, path.name)


def _default_method(program: Path) -> str:
    from etlink import pte, tables

    plans = pte.read(program).program.executionPlan
    names = [tables.text(plan.name) for plan in plans]
    return "forward" if "forward" in names or not names else names[0]


def _value(value: bundled_file.Value) -> dict[str, Any]:
    return {
        "dtype": value.dtype,
        "shape": list(value.shape),
        "order": list(value.order),
        "is_number": value.is_number,
        "data": value.data.hex(),
    }


def show(found: Mapping[str, Any], out: Printer) -> None:
    """Prints what `run` returned."""
    out.line(f"Loaded in {_milliseconds(found['load_seconds'])}", "dim")
    for number, one in enumerate(found["runs"]):
        times = sorted(one["seconds"])
        often = f", the median of {len(times)}" if len(times) > 1 else ""
        case = f"Case {number}, method" if "problems" in one else "Method"
        out.heading(f"{case} {one['method']}: {_milliseconds(times[len(times) // 2])}{often}")
        rows = [
            [
                f"{kind} {place}",
                amounts.shape(value["dtype"], value["shape"]),
                *(str(value.get(key, "–")) for key in ("least", "mean", "largest")),
                ", ".join(str(v) for v in value["first"])
                + (", …" if len(value["first"]) == 8 else ""),
            ]
            for kind in ("input", "output")
            for place, value in enumerate(one[f"{kind}s"])
        ]
        columns = ["", "tensor", "least", "mean", "largest", "first elements"]
        out.table(columns, rows, numbers=[2, 3, 4])
        for problem in one.get("problems", []):
            out.line(f"wrong: {problem}", "red")
        if one.get("problems") == []:
            out.line("as expected", "green")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
