"""Runs a program in ExecuTorch's Python runtime, in a process of its own.

Contract: `python -m etcli.execution REQUEST.json ANSWER.json`, started by `process.ask`; `running`
and `files.inspection` write the requests.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etlink import runtime
from etlink.process import serve

# First elements of a tensor that the answer has.
_SHOWN = 8


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Does what a request asks for: "command" is "missing" or "run"."""
    return {"missing": runtime.missing, "run": _run}[request["command"]](request)


def _run(request: Mapping[str, Any]) -> dict[str, Any]:
    data = Path(request["data"]) if request["data"] else None
    begin = time.perf_counter()
    program = runtime.Program(Path(request["program"]), data, request["name"])
    load_seconds = time.perf_counter() - begin
    cases = request["cases"] or [{"method": request["method"], "inputs": None}]
    runs = [_run_case(program, case, request) for case in cases]
    if request["output"]:
        _write(Path(request["output"]), runs[0]["tensors"])
    for run in runs:
        del run["tensors"]
    return {"load_seconds": load_seconds, "runs": runs}


def _run_case(
    program: runtime.Program, case: Mapping[str, Any], request: Mapping[str, Any]
) -> dict[str, Any]:
    from etcli import inputs

    method = program.method(case["method"])
    if case["inputs"] is None:
        files = [Path(p) for p in request["inputs"]]
        values = inputs.of_method(method.metadata, files, request["fill"], request["seed"])
    else:
        values = [_from_bundle(v) for v in case["inputs"]]
    seconds = []
    for _ in range(request["repeat"]):
        begin = time.perf_counter()
        outputs = method(values)
        seconds.append(time.perf_counter() - begin)
    run = {
        "method": case["method"],
        "seconds": seconds,
        "inputs": [_described(v) for v in values],
        "outputs": [_described(v) for v in outputs],
        "tensors": outputs,
    }
    if case["inputs"] is not None:
        run["problems"] = _differences(outputs, case["outputs"], request)
    return run


def _differences(
    outputs: Sequence[Any], expected: Sequence[Mapping[str, Any]], request: Mapping[str, Any]
) -> list[str]:
    """Sentences on outputs that are not those of a bundle."""
    from etlower import expected as eager
    from etlower.outputs import Tolerance, difference

    if len(outputs) != len(expected):
        return [f"got {len(outputs)} outputs, expected {len(expected)}"]
    tolerance = Tolerance(request["atol"], request["rtol"])
    got = eager.plain(outputs, "the program")
    bundled = eager.plain([_from_bundle(value) for value in expected], "the bundle")
    pairs = enumerate(zip(got, bundled, strict=True))
    lines = [difference(g, e, tolerance, f"output {n}") for n, (g, e) in pairs]
    return [line for line in lines if line]


def _from_bundle(value: Mapping[str, Any]) -> Any:
    import torch

    data = bytearray(bytes.fromhex(value["data"]))
    tensor = torch.frombuffer(data, dtype=getattr(torch, value["dtype"]))
    if value["is_number"]:
        return tensor.item()
    order = value["order"]
    laid_out = tensor.reshape([value["shape"][n] for n in order])
    return laid_out.permute([order.index(n) for n in range(len(order))])


def _described(value: Any) -> dict[str, Any]:
    """A value for people: type and shape, range, and first elements."""
    import torch

    if not isinstance(value, torch.Tensor):
        return {"dtype": type(value).__name__, "shape": [], "first": [value]}
    flat = value.reshape(-1)
    first = flat[:_SHOWN].tolist()
    if value.dtype == torch.bool:
        first = [str(v) for v in first]
    described: dict[str, Any] = {
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "first": [float(f"{v:.6g}") if isinstance(v, float) else v for v in first],
    }
    if flat.numel():
        numbers = flat.double()
        described |= {
            "least": _finite(numbers.min()),
            "largest": _finite(numbers.max()),
            "mean": _finite(numbers.mean()),
        }
    return described


def _finite(number: Any) -> float | str:
    value = float(number)
    return float(f"{value:.6g}") if math.isfinite(value) else str(value)


def _write(path: Path, outputs: Sequence[Any]) -> None:
    import safetensors.torch
    import torch

    tensors = {str(n): t.contiguous() for n, t in enumerate(outputs) if isinstance(t, torch.Tensor)}
    part = path.with_name(f".{path.name}.part")
    try:
        safetensors.torch.save_file(tensors, part)
        part.replace(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise BuildError(f"{path} cannot be written: {error}.", "Does its folder exist?") from error
    finally:
        part.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(serve(answer))
