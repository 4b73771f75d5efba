"""Measures a program in ExecuTorch's Python runtime, in a process that holds nothing else.

Contract: `python -m etcli.measure.measuring REQUEST.json ANSWER.json`, started by `process.ask`.
The request has `program`, `data` (or ""), `is_language_model`, `cases` (a file of torch.save: title
to method and inputs; or ""), `methods` (called on filled inputs where there are no cases),
`repeat`, `warm_up`, `prompt_tokens`, `tokens`, `events` (a folder for event files; or "") and
`report` (the program's, which says which module each event is of; or "").
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from etbuild import language_methods
from etlink.process import serve
from etlink.runtime import Method, Program, upstream
from etlower.progress import peak_memory

from etcli import inputs

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


def measure(request: Mapping[str, Any]) -> dict[str, Any]:
    """Does what a request asks for; times are seconds, memory is bytes."""
    program = Path(request["program"])
    data = Path(request["data"]) if request["data"] else None
    upstream()
    # The first load of any program also starts threads and the like.
    before = resident()
    begin = time.perf_counter()
    loaded = Program(program, data)
    cases = _cases(loaded, request)
    methods = {name: loaded.method(name) for name in dict.fromkeys(c.method for c in cases)}
    first_load = time.perf_counter() - begin
    after_load = resident()
    result: dict[str, Any] = {"methods": sorted(loaded.method_names), "cases": {}}
    for case in cases:
        result["cases"][case.title] = {
            "method": case.method,
            "seconds": _times(methods[case.method], case.inputs, request),
        }
    result["memory_bytes"] = {
        "loaded": max(0, after_load - before),
        "run": max(0, resident() - before),
    }
    if request["is_language_model"]:
        result["generation"] = _generate(Program(program, data), request)
    del methods, loaded
    gc.collect()
    again = [_load_time(program, data, cases) for _ in range(_LOADS)]
    result["load_seconds"] = [first_load, *again]
    result["peak_memory_bytes"] = peak_memory()
    result["events"] = {}
    if request["events"]:
        report = Path(request["report"]) if request["report"] else None
        result["events"] = _events(program, data, cases, Path(request["events"]), report)
    return result


def resident() -> int:
    """Memory of this process that is in use, in bytes; where that is unknown, the peak so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return peak_memory()
    return pages * resource.getpagesize()


def _load_time(program: Path, data: Path | None, cases: list[Case]) -> float:
    begin = time.perf_counter()
    loaded = Program(program, data)
    for name in dict.fromkeys(c.method for c in cases):
        loaded.method(name)
    return time.perf_counter() - begin


def _cases(loaded: Program, request: Mapping[str, Any]) -> list[Case]:
    if request["is_language_model"]:
        return _token_cases(loaded, request)
    if not request["cases"]:
        filled = {n: inputs.of_method(loaded.method(n).metadata) for n in request["methods"]}
        return [Case(name, name, tuple(values)) for name, values in filled.items()]
    saved = torch.load(request["cases"], weights_only=True)
    return [Case(title, method, tuple(values)) for title, (method, values) in saved.items()]


def _token_cases(loaded: Program, request: Mapping[str, Any]) -> list[Case]:
    """Calls of a language model: one token, and a prompt."""
    single = "forward" if "forward" in loaded.method_names else "decode"
    count = prompt_length(loaded, request["prompt_tokens"])
    position = torch.tensor([0])
    cases = [Case(f"{single}, 1 token", single, (tokens_of(1), position))]
    several = language_methods.prompt_method(loaded.method_names, count)
    if several and count > 1:
        cases.append(Case(f"{several}, {count} tokens", several, (tokens_of(count), position)))
    return cases


def prompt_length(loaded: Program, most: int) -> int:
    """Tokens of the prompt that is measured: those that one call takes, at most `most`."""
    fixed = language_methods.prompt_lengths(loaded.method_names)
    if "forward" not in loaded.method_names and fixed:
        return max([n for n in fixed if n <= most], default=min(fixed))
    return min(most, int(loaded.constant("get_max_seq_len")[0]))


def tokens_of(count: int) -> torch.Tensor:
    """Some tokens, the same each time, that any vocabulary has."""
    return torch.tensor([[1 + 37 * n % 199 for n in range(count)]])


def _times(method: Method, values: Sequence[Any], request: Mapping[str, Any]) -> list[float]:
    for _ in range(request["warm_up"]):
        method(values)
    seconds = []
    for _ in range(request["repeat"]):
        begin = time.perf_counter()
        method(values)
        seconds.append(time.perf_counter() - begin)
    return seconds


def _generate(loaded: Program, request: Mapping[str, Any]) -> dict[str, Any]:
    """An answer to a prompt, by greedy decoding, of a program that was just loaded."""
    count = prompt_length(loaded, request["prompt_tokens"])
    single = loaded.method("forward" if "forward" in loaded.method_names else "decode")
    several = language_methods.prompt_method(loaded.method_names, count)
    method = loaded.method(several) if several and count > 1 else None
    context = int(loaded.constant("get_max_context_len")[0])
    prompt = tokens_of(count)
    begin = time.perf_counter()
    if method is not None:
        logits = method((prompt, torch.tensor([0])))[0]
    else:
        for position in range(count):
            token = prompt[:, position : position + 1]
            logits = single((token, torch.tensor([position])))[0]
    likeliest = _likeliest(logits)
    first = time.perf_counter() - begin
    seconds = []
    for position in range(count, min(context, count + request["tokens"])):
        begin = time.perf_counter()
        logits = single((torch.tensor([[likeliest]]), torch.tensor([position])))[0]
        likeliest = _likeliest(logits)
        seconds.append(time.perf_counter() - begin)
    return {
        "prompt_tokens": count,
        "first_token_seconds": first,
        "token_seconds": seconds,
    }


def _likeliest(logits: torch.Tensor) -> int:
    return int(logits.reshape(-1, logits.shape[-1])[-1].argmax())


def _events(
    program: Path, data: Path | None, cases: list[Case], folder: Path, report: Path | None
) -> dict[str, dict[str, Any]]:
    """Returns the parts of each case's time, in runs that are slower for being recorded."""
    # Imports pandas: after all that is measured.
    from etcli.measure import events, modules

    known = modules.read(report) if report else None
    summaries = {}
    for number, case in enumerate(cases):
        loaded = Program(program, data, events=True)
        method = loaded.method(case.method)
        for _ in range(_EVENT_RUNS):
            method(case.inputs)
        path = folder / f"{number}.etdp"
        if loaded.write_events(path):
            timeline = events.read(path, case.method, program)
            summary = events.summary(timeline)
            if known is not None:
                summary["modules"] = modules.of_method(timeline, case.method, known)
            summaries[case.title] = summary
    return summaries


if __name__ == "__main__":
    sys.exit(serve(measure))
