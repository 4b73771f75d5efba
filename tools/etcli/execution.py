"""Runs a program in ExecuTorch's Python runtime, in a process of its own.

Contract: `python -m etcli.execution REQUEST.json RESULT.json`. What goes wrong in a way that a
runtime can name is `{"error": sentence, "hint": …}` in the result.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SHOWN = 8


def main() -> int:
    """Runs a request; returns the exit code."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(json.dumps(answer(request)), encoding="utf-8")
    return 0


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Does what a request asks for.

    Args:
      request: "command" is "missing" or "run"; etcli.running has what else.

    Returns:
      The result, or "error" and "hint".
    """
    try:
        return {"missing": _missing, "run": _run}[request["command"]](request)
    except Refused as error:
        return {"error": str(error), "hint": error.hint}


class Refused(Exception):
    """Something about the inputs or the program is wrong; the message is a sentence."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint


def _missing(request: Mapping[str, Any]) -> dict[str, Any]:
    """What a program needs and this machine's runtime hasn't got."""
    from executorch.extension.pybindings import portable_lib

    backends = set(portable_lib._get_registered_backend_names())
    operators = set(portable_lib._get_operator_names())
    return {
        "missing_backends": [b for b in request["backends"] if b not in backends],
        "missing_operators": [o for o in request["operators"] if o not in operators],
    }


def _run(request: Mapping[str, Any]) -> dict[str, Any]:
    from executorch.runtime import Runtime

    runtime = Runtime.get()
    begin = time.perf_counter()
    loaded = _load(runtime, request)
    load_seconds = time.perf_counter() - begin
    cases = request["cases"] or [{"method": request["method"], "inputs": None}]
    ran = [_one(loaded, case, request) for case in cases]
    if request["output"]:
        _write(Path(request["output"]), ran[0]["tensors"])
    for one in ran:
        del one["tensors"]
    return {"load_seconds": load_seconds, "runs": ran}


def _load(runtime: Any, request: Mapping[str, Any]) -> Any:
    from executorch.runtime import Verification

    try:
        return runtime.load_program(
            Path(request["program"]),
            verification=Verification.Minimal,
            data_path=Path(request["data"]) if request["data"] else None,
        )
    except RuntimeError as error:
        raise Refused(
            f"{request['name']}: the runtime can't load it: {error}.",
            "et inspect --runtime says what it needs.",
        ) from error


def _one(loaded: Any, case: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    name = case["method"]
    if name not in loaded.method_names:
        known = ", ".join(sorted(loaded.method_names))
        raise Refused(
            f'{request["name"]} has no method "{name}", but: {known}.', "Choose one with --method."
        )
    try:
        method = loaded.load_method(name)
    except RuntimeError as error:
        raise Refused(
            f'{request["name"]}: the runtime can\'t load the method "{name}": {error}.',
            "et inspect --runtime says what it needs.",
        ) from error
    if case["inputs"] is None:
        inputs = _inputs(method.metadata, request)
    else:
        inputs = [_from_bundle(v) for v in case["inputs"]]
    seconds = []
    for _ in range(request["repeat"]):
        begin = time.perf_counter()
        try:
            outputs = method.execute(inputs)
        except RuntimeError as error:
            raise Refused(f'{request["name"]}: the method "{name}" failed: {error}.') from error
        seconds.append(time.perf_counter() - begin)
    found = {
        "method": name,
        "seconds": seconds,
        "inputs": [_described(v) for v in inputs],
        "outputs": [_described(v) for v in outputs],
        "tensors": outputs,
    }
    if case["inputs"] is not None:
        found["problems"] = _differences(outputs, case["outputs"], request)
    return found


def _differences(
    outputs: Sequence[Any], wanted: Sequence[Mapping[str, Any]], request: Mapping[str, Any]
) -> list[str]:
    """Where outputs aren't what a bundle expects."""
    from etexport.compare import Tolerance, difference

    if len(outputs) != len(wanted):
        return [f"got {len(outputs)} outputs, wanted {len(wanted)}"]
    tolerance = Tolerance(request["atol"], request["rtol"])
    pairs = enumerate(zip(outputs, wanted, strict=True))
    lines = [difference(g, _from_bundle(w), tolerance, f"output {n}") for n, (g, w) in pairs]
    return [line for line in lines if line]


def _from_bundle(value: Mapping[str, Any]) -> Any:
    import torch

    tensor = torch.frombuffer(
        bytearray(bytes.fromhex(value["data"])), dtype=getattr(torch, value["dtype"])
    )
    if value["is_number"]:
        return tensor.item()
    order = value["order"]
    laid_out = tensor.reshape([value["shape"][n] for n in order])
    return laid_out.permute([order.index(n) for n in range(len(order))])


def _inputs(metadata: Any, request: Mapping[str, Any]) -> list[Any]:
    """The files that the user gives, and made-up tensors for the other inputs."""
    import torch

    files = [_read(Path(p)) for p in request["inputs"]]
    given = [tensor for file in files for tensor in file]
    count = metadata.num_inputs()
    if len(given) > count:
        raise Refused(f"There are {len(given)} inputs given, and the method takes {count}.")
    generator = torch.Generator().manual_seed(request["seed"])
    found = []
    for number in range(count):
        try:
            info = metadata.input_tensor_meta(number)
        except (RuntimeError, TypeError):
            # A number or a text: its kind is all that the tables say.
            raise Refused(
                f"Input {number} is no tensor, which et run can't give.",
                "The runner (tools/runner) can.",
            ) from None
        wanted, dtype = tuple(info.sizes()), _dtype(info)
        if number < len(given):
            _check(given[number], wanted, dtype, number)
            found.append(given[number])
        else:
            found.append(_made_up(wanted, dtype, request["fill"], generator))
    return found


def _dtype(info: Any) -> Any:
    import torch

    # Upstream gives the number of scalar_type.fbs.
    from etlink.tables import SCALAR_TYPES

    return getattr(torch, SCALAR_TYPES[int(info.dtype())][0])


def _check(tensor: Any, wanted: Sequence[int], dtype: Any, number: int) -> None:
    shape = tuple(tensor.shape)
    fits = len(shape) == len(wanted) and all(a <= b for a, b in zip(shape, wanted, strict=True))
    if tensor.dtype != dtype or not fits:
        raise Refused(
            f"Input {number} is {tensor.dtype} {list(shape)}, wanted {dtype} of at most "
            f"{list(wanted)}.".replace("torch.", ""),
            "Give a file with such a tensor.",
        )


def _made_up(shape: Sequence[int], dtype: Any, fill: str, generator: Any) -> Any:
    import torch

    if fill == "zeros":
        return torch.zeros(shape, dtype=dtype)
    if fill == "ones" or not dtype.is_floating_point:
        return torch.ones(shape, dtype=dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def _read(path: Path) -> list[Any]:
    import numpy
    import safetensors
    import safetensors.torch
    import torch

    try:
        if path.suffix == ".npy":
            return [torch.from_numpy(numpy.load(path, allow_pickle=False))]
        if path.suffix == ".safetensors":
            tensors = safetensors.torch.load_file(path)
            return [tensors[name] for name in sorted(tensors, key=_natural)]
    except (OSError, ValueError, TypeError, safetensors.SafetensorError) as error:
        raise Refused(f"{path} can't be read: {error}.", "Write it again.") from error
    raise Refused(f"{path} is neither .npy nor .safetensors.", "Give one of those.")


def _natural(name: str) -> tuple[int, str]:
    return (int(name) if name.isdecimal() else 1 << 30, name)


def _described(value: Any) -> dict[str, Any]:
    """A value for people: what it is, its range, and its first elements."""
    import torch

    if not isinstance(value, torch.Tensor):
        return {"dtype": type(value).__name__, "shape": [], "first": [value]}
    flat = value.reshape(-1)
    found: dict[str, Any] = {
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "first": [str(v) for v in flat[:_SHOWN].tolist()]
        if value.dtype == torch.bool
        else [float(f"{v:.6g}") if isinstance(v, float) else v for v in flat[:_SHOWN].tolist()],
    }
    if flat.numel():
        numbers = flat.double()
        found |= {
            "least": _finite(numbers.min()),
            "largest": _finite(numbers.max()),
            "mean": _finite(numbers.mean()),
        }
    return found


def _finite(number: Any) -> float | str:
    import math

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
        raise Refused(f"Can't write {path}: {error}.", "Is the folder there?") from error
    finally:
        part.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
