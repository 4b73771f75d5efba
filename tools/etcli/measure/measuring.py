"""Measures a program in a process that holds nothing else.

Contract: `python -m etcli.measure.measuring REQUEST.json ANSWER.json`, started by `process.ask`.
The request has `program`, `data` (paths), `manifest` (or ""), `is_language_model`, `cases` (a file
of `etlower.expected`; or ""), `methods` (called on filled inputs where there are no cases),
`repeat`, `warm_up`, `prompt_tokens`, `tokens`, and `events` (a folder for event files; or "").
`recorded.py` reads these files: this process imports no torch.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from etbuild import language_methods
from etlink import pte
from etlink.process import serve
from etlower import expected
from etlower.cases import input_of
from etlower.progress import peak_memory
from runner import runtime
from runner.runtime import Program

from etcli import inputs

# Times that a program is loaded again, and answers of a language model.
_LOADS = 5
_ANSWERS = 3
_EVENT_RUNS = 5


@dataclass(frozen=True)
class Case:
    """A call that is measured.

    Attributes:
      title: for people: the method, and what is special about the inputs.
      method: its name.
      inputs: flat, as the C interface takes them.
    """

    title: str
    method: str
    inputs: tuple[np.ndarray, ...]


def measure(request: Mapping[str, Any]) -> dict[str, Any]:
    """Does what a request asks for; times are seconds, memory is bytes."""
    path = Path(request["program"])
    runtime.check_needs(pte.read(path), path.name)

    def opened(events: bool = False) -> Program:
        data = [Path(file) for file in request["data"]]
        manifest = Path(request["manifest"]) if request["manifest"] else None
        return Program(path, data, manifest, events=events)

    # The first load of any program also starts threads and the like, and checks the files' bytes.
    before = resident()
    begin = time.perf_counter()
    loaded = opened()
    cases = _cases(loaded, request)
    names = list(dict.fromkeys(case.method for case in cases))
    for name in names:
        loaded.load(name)
    first_load = time.perf_counter() - begin
    after_load = resident()
    result: dict[str, Any] = {"methods": sorted(loaded.method_names), "cases": {}}
    for case in cases:
        result["cases"][case.title] = {
            "method": case.method,
            "seconds": _times(loaded, case, request),
        }
    result["memory_bytes"] = {
        "loaded": max(0, after_load - before),
        "run": max(0, resident() - before),
    }
    if request["is_language_model"]:
        result["generation"] = _generation(loaded, request)
    again = [_load_time(loaded, names) for _ in range(_LOADS)]
    result["load_seconds"] = [first_load, *again]
    loaded.close()
    gc.collect()
    result["peak_memory_bytes"] = peak_memory()
    result["events"] = {}
    if request["events"]:
        with opened(events=True) as recording:
            result["events"] = _record(recording, cases, Path(request["events"]))
    return result


def resident() -> int:
    """Memory of this process that is in use, in bytes; where that is unknown, the peak so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return peak_memory()
    return pages * resource.getpagesize()


def _load_time(loaded: Program, methods: Sequence[str]) -> float:
    begin = time.perf_counter()
    loaded.reset()
    for name in methods:
        loaded.load(name)
    return time.perf_counter() - begin


def _cases(loaded: Program, request: Mapping[str, Any]) -> list[Case]:
    if request["is_language_model"]:
        return _token_cases(loaded, request)
    if request["cases"]:
        return [
            Case(case.method, case.method, tuple(input_of(v, case.where()) for v in case.inputs))
            for case in expected.read(Path(request["cases"]))
        ]
    filled = {name: inputs.of_method(loaded.describe(name)) for name in request["methods"]}
    return [Case(n, n, tuple(input_of(v, n) for v in values)) for n, values in filled.items()]


def _token_cases(loaded: Program, request: Mapping[str, Any]) -> list[Case]:
    """Calls of a language model: one token, and a prompt."""
    names = loaded.method_names
    single = "forward" if "forward" in names else "decode"
    count = prompt_length(loaded, request["prompt_tokens"])
    several = language_methods.prompt_method(names, count)
    cases = [_token_case(single, 1)]
    return [*cases, _token_case(several, count)] if several and count > 1 else cases


def _token_case(method: str, count: int) -> Case:
    title = f"{method}, {count} token{'s' if count > 1 else ''}"
    return Case(title, method, (np.array([tokens_of(count)]), np.array([0])))


def prompt_length(loaded: Program, most: int) -> int:
    """Tokens of the prompt that is measured: those that one call takes, at most `most`."""
    fixed = language_methods.prompt_lengths(loaded.method_names)
    if "forward" not in loaded.method_names and fixed:
        return max([n for n in fixed if n <= most], default=min(fixed))
    return min(most, int(loaded.constant("get_max_seq_len")[0]))


def tokens_of(count: int) -> list[int]:
    """Some tokens, the same each time, that any vocabulary has."""
    return [1 + 37 * n % 199 for n in range(count)]


def _times(loaded: Program, case: Case, request: Mapping[str, Any]) -> list[float]:
    seconds = []
    for _ in range(request["warm_up"] + request["repeat"]):
        loaded.run(case.method, case.inputs)
        seconds.append(loaded.last_run_seconds)
    return seconds[request["warm_up"] :]


def _generation(loaded: Program, request: Mapping[str, Any]) -> dict[str, Any]:
    """Medians of several answers to one prompt."""
    prompt = tokens_of(prompt_length(loaded, request["prompt_tokens"]))
    answers = [loaded.generate(prompt, request["tokens"]) for _ in range(_ANSWERS)]
    return {
        "prompt_tokens": len(prompt),
        "first_token_seconds": median(answer.prefill_ms / 1000 for answer in answers),
        "token_seconds": [a.decode_ms / 1000 / a.decode_tokens for a in answers if a.decode_tokens],
    }


def _record(loaded: Program, cases: Sequence[Case], folder: Path) -> dict[str, str]:
    """Records runs, which are slower for it; returns the file of each case."""
    files = {}
    for number, case in enumerate(cases):
        loaded.reset()
        for _ in range(_EVENT_RUNS):
            loaded.run(case.method, case.inputs)
        file = folder / f"{number}.etdp"
        if loaded.write_events(file):
            files[case.title] = str(file)
    return files


if __name__ == "__main__":
    sys.exit(serve(measure))
