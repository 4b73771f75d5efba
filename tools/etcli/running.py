"""`et run`: runs a program on this machine, in a process that may crash."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etbundle.app import BINARY, MANIFEST
from etlink import process, pte, tables
from etlink.amounts import human_tensor

from etcli import paths
from etcli.command import Outcome, add_data_option, positive
from etcli.console import Printer, waiting
from etcli.files import bundled_file, inspection


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("file", metavar="FILE", help=".pte, .bpte (its test cases) or APP_DIR")
    add_data_option(parser)
    parser.add_argument("--method", default="", help='default: "forward", else the first method')
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="FILE",
        help="inputs in their order: .npy, or .safetensors with the names 0, 1, …",
    )
    parser.add_argument(
        "--fill",
        choices=("random", "ones", "zeros"),
        default="random",
        help="values of missing inputs; integers are never random (%(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of random inputs (%(default)s)")
    parser.add_argument("--repeat", type=positive, default=1, help="number of runs (%(default)s)")
    parser.add_argument(
        "--output", default="", metavar="FILE", help="write the outputs to a .safetensors file"
    )
    parser.add_argument(
        "--atol", type=float, default=1e-4, help="tolerance of a .bpte (%(default)s)"
    )
    parser.add_argument(
        "--rtol", type=float, default=1e-4, help="tolerance of a .bpte (%(default)s)"
    )
    parser.add_argument(
        "rest", nargs="*", metavar="ARGUMENT", help="arguments for an app's binary, after --"
    )


def command(options: argparse.Namespace) -> Outcome:
    """Runs a program, a bundle's test cases, or an app, whose exit code is handed on."""
    path = paths.existing(options.file)
    if path.is_dir():
        return Outcome(None, code=run_app(path, options.rest))
    if options.rest:
        text = " ".join(options.rest)
        raise BuildError(f"{path.name} takes no arguments: got {text}.", "Only apps do.")
    result = run(path, options)
    failed = any(run.get("problems") for run in result["runs"])
    return Outcome(result, lambda out: show(result, out), code=1 if failed else 0)


def run(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Runs a .pte, or the test cases of a .bpte.

    Returns:
      "load_seconds" and "runs"; of a bundle's each with "problems".

    Raises:
      BuildError: a file is damaged or missing, or the runtime refuses or crashes.
    """
    kind = inspection.checked_kind(path)
    if kind == inspection.DATA_FILE:
        raise BuildError(f"{path} is a data file, which cannot run.", "Give the program's .pte.")
    with tempfile.TemporaryDirectory(prefix="et-") as name:
        folder = Path(name)
        if kind == inspection.BUNDLE:
            bundle = bundled_file.read(path)
            cases = [case for case in bundle.cases if options.method in ("", case.method)]
            if not cases:
                raise BuildError(f'{path} has no test cases of the method "{options.method}".')
            with bundle.program_file() as program:
                return _ask(path, program.path, [], options, cases, folder)
        files = [paths.existing(p).absolute() for p in options.data]
        return _ask(path, path, files or paths.data_beside(path), options, [], folder)


def run_app(path: Path, arguments: Sequence[str]) -> int:
    """Starts an app's own binary.

    Returns:
      Its exit code.

    Raises:
      BuildError: the folder is not an app, or is one for another platform.
    """
    binary = path / BINARY
    if not (path / MANIFEST).is_file() or not binary.is_file():
        raise BuildError(
            f"{path} is not an app: {MANIFEST} and {BINARY} not found.",
            "Give the folder that an et_runner_app builds.",
        )
    try:
        return subprocess.run([str(binary), *arguments], check=False).returncode
    except OSError as error:
        raise BuildError(
            f"{binary} cannot be started: {error.strerror}.", "Is the app for this platform?"
        ) from error


def _ask(
    path: Path,
    program: Path,
    data: Sequence[Path],
    options: argparse.Namespace,
    cases: Sequence[bundled_file.Case],
    folder: Path,
) -> dict[str, Any]:
    output = str(paths.written(options.output).absolute()) if options.output else ""
    request = {
        "command": "run",
        "name": path.name,
        "program": program.absolute(),
        "data": [file.absolute() for file in data],
        "manifest": paths.manifest_beside(program) or "",
        "inputs": [paths.existing(p).absolute() for p in options.input],
        "method": options.method or _default_method(program),
        "cases": [
            {
                "method": case.method,
                "inputs": [_value(v) for v in case.inputs],
                "outputs": [_value(v) for v in case.outputs],
            }
            for case in cases
        ],
        "output": output,
        **{name: getattr(options, name) for name in ("atol", "fill", "repeat", "rtol", "seed")},
    }
    with waiting(f"Running {path.name}"):
        return process.ask("etcli.execution", request, folder, path.name)


def _default_method(program: Path) -> str:
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


def show(result: Mapping[str, Any], out: Printer) -> None:
    """Prints what `run` returned."""
    out.line(f"Loaded in {_milliseconds(result['load_seconds'])}", "dim")
    for number, run in enumerate(result["runs"]):
        times = sorted(run["seconds"])
        median = f", the median of {len(times)}" if len(times) > 1 else ""
        case = f"Case {number}, method" if "problems" in run else "Method"
        out.heading(f"{case} {run['method']}: {_milliseconds(times[len(times) // 2])}{median}")
        rows = [
            [
                f"{kind} {index}",
                human_tensor(value["dtype"], value["shape"]),
                *(str(value.get(key, "–")) for key in ("least", "mean", "largest")),
                ", ".join(str(v) for v in value["first"])
                + (", …" if len(value["first"]) == 8 else ""),
            ]
            for kind in ("input", "output")
            for index, value in enumerate(run[f"{kind}s"])
        ]
        columns = ["", "tensor", "least", "mean", "largest", "first elements"]
        out.table(columns, rows, numbers=[2, 3, 4])
        for problem in run.get("problems", []):
            out.line(f"wrong: {problem}", "red")
        if run.get("problems") == []:
            out.line("as expected", "green")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
