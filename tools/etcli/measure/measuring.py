"""Measures a program in ExecuTorch's Python runtime, in a process that holds nothing else.

Contract: `python -m etcli.measure.measuring REQUEST.json RESULT.json`. The request has `program`,
`data` (or ""), `cases` (a file of torch.save: title to method and inputs; or "" for a language
model), `repeat`, `warm_up`, `prompt_tokens`, `tokens` and `etdump` (a folder for event files; or
"").
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.extension.pybindings import portable_lib
from executorch.runtime import Runtime, Verification

_LOADS = 5
_EVENT_RUNS = 5


@dataclass(frozen=True)
class Case:
    """A call that is measured.

    Attributes:
      title: for people: the method, and what is special about the inputs.
      method: its name.
      inputs: flat, tensors and numbers.
    """

    title: str
    method: str
    inputs: tuple[Any, ...]


def main() -> int:
    """Measures; returns the exit code."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        result = measure(request)
    except RuntimeError as error:
        text = " ".join(str(error).split())
        result = {
            "error": f"{Path(request['program']).name}: the runtime failed: {text}.",
            "hint": "et inspect --runtime says what the program needs.",
        }
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")
    return 0


def measure(request: Mapping[str, Any]) -> dict[str, Any]:
    """Does what a request asks for; times are seconds, memory is bytes."""
    program = Path(request["program"])
    data = Path(request["data"]) if request["data"] else None
    Runtime.get()
    # The first load of any program also starts threads and the like.
    before = resident()
    begin = time.perf_counter()
    loaded = _load(program, data)
    names = sorted(loaded.method_names)
    generates = not request["cases"]
    cases = _tokens_cases(loaded, request) if generates else _saved_cases(request["cases"])
    methods = {name: loaded.load_method(name) for name in dict.fromkeys(c.method for c in cases)}
    first_load = time.perf_counter() - begin
    after_load = resident()
    found: dict[str, Any] = {"methods": names, "cases": {}}
    for case in cases:
        found["cases"][case.title] = {
            "method": case.method,
            "seconds": _times(methods[case.method], case.inputs, request),
        }
    found["memory_bytes"] = {
        "loaded": max(0, after_load - before),
        "run": max(0, resident() - before),
    }
    if generates:
        found["generation"] = _generate(program, data, request)
    del methods, loaded
    gc.collect()
    found["load_seconds"] = [first_load, *(_load_time(program, data, cases) for _ in range(_LOADS))]
    if request["etdump"]:
        found["etdumps"] = _record(program, data, cases, Path(request["etdump"]))
    found["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return found


def resident() -> int:
    """Memory of this process that is in use, in bytes; where that isn't known the most so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize()


def _load(program: Path, data: Path | None) -> Any:
    return Runtime.get().load_program(program, verification=Verification.Minimal, data_path=data)


def _load_time(program: Path, data: Path | None, cases: list[Case]) -> float:
    begin = time.perf_counter()
    loaded = _load(program, data)
    methods = [loaded.load_method(name) for name in dict.fromkeys(c.method for c in cases)]
    seconds = time.perf_counter() - begin
    del methods
    return seconds


def _saved_cases(path: str) -> list[Case]:
    saved = torch.load(path, weights_only=True)
    return [Case(title, method, tuple(inputs)) for title, (method, inputs) in saved.items()]


def _tokens_cases(loaded: Any, request: Mapping[str, Any]) -> list[Case]:
    """Calls of a language model: one token, and a prompt."""
    names = set(loaded.method_names)
    single = "forward" if "forward" in names else "decode"
    count = prompt_length(loaded, request["prompt_tokens"])
    position = torch.tensor([0])
    cases = [Case(f"{single}, 1 token", single, (tokens_of(1), position))]
    several = prompt_method(loaded, count)
    if several and count > 1:
        cases.append(Case(f"{several}, {count} tokens", several, (tokens_of(count), position)))
    return cases


def prompt_length(loaded: Any, wanted: int) -> int:
    """Tokens of the prompt that is measured: those that one call takes, at most `wanted`."""
    fixed = _fixed_prefills(loaded)
    if "forward" not in loaded.method_names and fixed:
        return max([n for n in fixed if n <= wanted], default=min(fixed))
    return min(wanted, int(loaded.load_method("get_max_seq_len").execute(())[0]))


def prompt_method(loaded: Any, count: int) -> str:
    """The method that reads a prompt of that many tokens in one call; empty: there is none."""
    for name in (f"prefill_{count}", "prefill", "forward"):
        if name in loaded.method_names:
            return name
    return ""


def _fixed_prefills(loaded: Any) -> list[int]:
    names = [n.removeprefix("prefill_") for n in loaded.method_names if n.startswith("prefill_")]
    return sorted(int(n) for n in names if n.isdecimal())


def tokens_of(count: int) -> torch.Tensor:
    """Some tokens, the same each time, that any vocabulary has."""
    return torch.tensor([[1 + 37 * n % 199 for n in range(count)]])


def _times(method: Any, inputs: tuple[Any, ...], request: Mapping[str, Any]) -> list[float]:
    for _ in range(request["warm_up"]):
        method.execute(inputs)
    seconds = []
    for _ in range(request["repeat"]):
        begin = time.perf_counter()
        method.execute(inputs)
        seconds.append(time.perf_counter() - begin)
    return seconds


def _generate(program: Path, data: Path | None, request: Mapping[str, Any]) -> dict[str, Any]:
    """An answer to a prompt, on the likeliest tokens, by a program that was just loaded."""
    loaded = _load(program, data)
    count = prompt_length(loaded, request["prompt_tokens"])
    single = loaded.load_method("forward" if "forward" in loaded.method_names else "decode")
    several = prompt_method(loaded, count)
    method = loaded.load_method(several) if several and count > 1 else None
    room = int(loaded.load_method("get_max_context_len").execute(())[0])
    prompt = tokens_of(count)
    begin = time.perf_counter()
    if method is not None:
        logits = method.execute((prompt, torch.tensor([0])))[0]
    else:
        for place in range(count):
            logits = single.execute((prompt[:, place : place + 1], torch.tensor([place])))[0]
    token = _likeliest(logits)
    first = time.perf_counter() - begin
    seconds = []
    for place in range(count, min(room, count + request["tokens"])):
        begin = time.perf_counter()
        token = _likeliest(single.execute((torch.tensor([[token]]), torch.tensor([place])))[0])
        seconds.append(time.perf_counter() - begin)
    return {
        "prompt_tokens": count,
        "first_token_seconds": first,
        "token_seconds": seconds,
    }


def _likeliest(logits: torch.Tensor) -> int:
    return int(logits.reshape(-1, logits.shape[-1])[-1].argmax())


def _record(program: Path, data: Path | None, cases: list[Case], folder: Path) -> dict[str, str]:
    """Writes a file of events for each case, of runs that are slower for being recorded."""
    found = {}
    for number, case in enumerate(cases):
        module = portable_lib._load_for_executorch(
            str(program), str(data) if data else None, enable_etdump=True
        )
        if not module.has_etdump():
            return {}
        for _ in range(_EVENT_RUNS):
            module.run_method(case.method, case.inputs)
        path = folder / f"{number}.etdp"
        module.write_etdump_result_to_file(str(path))
        found[case.title] = str(path)
    return found


if __name__ == "__main__":
    sys.exit(main())
