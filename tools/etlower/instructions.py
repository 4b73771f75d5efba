"""Counts instructions of a program's calls: hardly anything else on the machine changes them.

Contract: `python -m etlower.instructions REQUEST.json ANSWER.json`, which `process.ask` starts. The
request is that of `cases.py`, with `counter`: "perf" or "valgrind"; the answer has `counts`, of
each call that is counted, in the order of `counted_cases` ("perf"). In valgrind, a file
`<output>.<n>` has it.

Two counters give the same kind of figure: instructions that the C function of a run executes, in
user mode, with one thread, the second time. Which kernels a program takes depends on the processor,
and valgrind's has no AVX-512: so figures of both counters, and of two kinds of machines, differ.

* The kernel's (`perf_event_open`) costs no time. Virtual machines often lack it.
* valgrind's callgrind runs everything else at a fifth of the speed, and counted calls at a
  fiftieth. It is told when to count by an instruction that does nothing elsewhere.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import mmap
import os
import platform
import re
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etlink import pte
from etlink.process import ask, serve
from runner import runtime
from runner.api import executorch_app

from etlower import expected
from etlower.cases import input_of
from etlower.expected import Case
from etlower.runs import ProgramRun

# The number of perf_event_open, by machine.
_SYSTEM_CALLS = {"aarch64": 241, "x86_64": 298}
# Of its structure: type "hardware", its size, the event "instructions", the times that were counted
# and might have been, and flags: begins disabled, with threads that start later, of user mode.
_ATTRIBUTES = struct.pack("<IIQQQQQ", 0, 136, 1, 0, 0, 3, 1 << 0 | 1 << 1 | 1 << 5 | 1 << 6)
_ENABLE, _DISABLE, _RESET = 0x2400, 0x2401, 0x2403

# valgrind's requests: turns of rdi that add up to nothing, with the address of six words in rax.
_REQUEST_CODE = bytes.fromhex("4889f8 4889f2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3")
_DUMP, _START, _STOP = (0x43540000 + number for number in (0, 4, 5))

_HINT = (
    "Remove max_instructions, or run the test on Linux on x86_64, where valgrind counts them, or "
    "where the kernel does: on a machine with a counter, and kernel.perf_event_paranoid of 2 or "
    "less."
)


@dataclass(frozen=True)
class Count:
    """The call with the most instructions.

    Attributes:
      most: its instructions.
      where: the call, for people.
      by: what counted.
    """

    most: int
    where: str
    by: str


def count(run: ProgramRun, valgrind: Path | None) -> Count:
    """Counts the instructions of each case's call.

    Args:
      run: the program and its cases.
      valgrind: the program `valgrind.bin` of Debian's package, unpacked; None: there is none.

    Raises:
      BuildError: this machine counts no instructions, or the program failed.
    """
    cases = counted_cases(expected.read(run.expected), run.methods)
    if not cases:
        raise BuildError(
            f"{run.program.name}: max_instructions: no method is called: all are constant.",
            "Remove max_instructions.",
        )
    problem = _perf_problem()
    if not problem:
        counts, by = _by_perf(run), "the kernel"
    elif valgrind and valgrind.is_file():
        counts, by = _by_valgrind(run, valgrind, len(cases)), "valgrind"
    else:
        raise BuildError(
            f"this machine counts no instructions: perf_event_open: {problem}, and valgrind is "
            "only there for Linux on x86_64.",
            _HINT,
        )
    most = max(range(len(cases)), key=counts.__getitem__)
    return Count(counts[most], cases[most].where(), by)


def counted_cases(cases: Sequence[Case], methods: Sequence[str]) -> list[Case]:
    """The cases whose second call in a row is counted: each input of each method, once."""
    return [c for c in expected.chosen(cases, methods) if not c.constant and c.calls == 1]


def _by_perf(run: ProgramRun) -> list[int]:
    request = {**run.request(), "counter": "perf"}
    answer = ask("etlower.instructions", request, run.work, run.program.name)
    return list(map(int, answer["counts"]))


def _by_valgrind(run: ProgramRun, valgrind: Path, cases: int) -> list[int]:
    library = valgrind.absolute().parents[1] / "libexec/valgrind"
    output = run.work / "instructions"
    request = {**run.request(), "counter": "valgrind"}
    command = [str(valgrind.absolute()), "--tool=callgrind", "--instr-atstart=no", "--quiet"]
    command += [f"--callgrind-out-file={output}", f"--log-file={run.work / 'valgrind.log'}"]
    environment = {"VALGRIND_LIB": str(library)}
    try:
        ask(
            "etlower.instructions",
            request,
            run.work,
            run.program.name,
            environment,
            command=command,
        )
    except BuildError as error:
        raise BuildError(f"in valgrind: {error.what}", _HINT) from error
    return [_total(Path(f"{output}.{number + 1}")) for number in range(cases)]


def _total(path: Path) -> int:
    """The instructions in a file of callgrind."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    totals = re.findall(r"^totals: (\d+)$", text, re.MULTILINE)
    if len(totals) != 1:
        raise BuildError(f"{path.name}: valgrind counted nothing.", _HINT)
    return int(totals[0])


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Runs the cases of a request twice, and counts the second call."""
    program, name = Path(request["program"]), request["name"]
    runtime.check_needs(pte.read(program), name)
    counter: _Perf | _Callgrind = _Perf() if request["counter"] == "perf" else _Callgrind()
    executorch_app.set_threads(1)
    data = [Path(path) for path in request["data"]]
    with runtime.Program(program, data, name=name) as opened:
        opened.wrap_runs(functools.partial(_counting, counter))
        for case in counted_cases(expected.read(Path(request["expected"])), request["methods"]):
            inputs = [input_of(value, case.where()) for value in case.inputs]
            opened.reset()
            opened.load(case.method)
            for counter.counts_next in (False, True):
                opened.run(case.method, inputs)
    return {"counts": counter.counts}


def _counting(counter: _Perf | _Callgrind, function: Callable[..., int]) -> Callable[..., int]:
    def run(*arguments: Any) -> int:
        if not counter.counts_next:
            return function(*arguments)
        counter.start()
        result = function(*arguments)
        counter.stop()
        return result

    return run


class _Perf:
    """The kernel's counter of this thread, and of those that it starts later."""

    counts_next = False

    def __init__(self, attributes: bytes = _ATTRIBUTES) -> None:
        self._file = _open_event(attributes)
        self.counts: list[int] = []

    def start(self) -> None:
        fcntl.ioctl(self._file, _RESET, 0)
        fcntl.ioctl(self._file, _ENABLE, 0)

    def stop(self) -> None:
        fcntl.ioctl(self._file, _DISABLE, 0)
        value, enabled, running = struct.unpack("<QQQ", os.read(self._file, 24))
        if running < enabled:
            raise BuildError(
                f"the kernel counted for {running} of {enabled} ns: another program uses the "
                "counters, or the thread went to a core of another kind.",
                "Run the test alone, or remove max_instructions.",
            )
        self.counts.append(value)


def _perf_problem() -> str:
    """Names the reason why the kernel does not count; empty: it does."""
    try:
        os.close(_open_event(_ATTRIBUTES))
    except OSError as error:
        return error.strerror
    return ""


def _open_event(attributes: bytes) -> int:
    """Opens a counter of this thread.

    Raises:
      OSError: the kernel has none, or does not permit it.
    """
    number = _SYSTEM_CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        raise OSError(0, f"{platform.system()} on {platform.machine()} has no such call")
    structure = ctypes.create_string_buffer(attributes, 136)
    system_call = ctypes.CDLL(None, use_errno=True).syscall
    system_call.restype = ctypes.c_long
    # Of this thread, on any processor, in no group, closed in children.
    numbers = map(ctypes.c_long, (0, -1, -1, 8))
    file: int = system_call(ctypes.c_long(number), structure, *numbers)
    if file < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return file


class _Callgrind:
    """Requests to the valgrind that runs this process."""

    counts_next = False

    def __init__(self) -> None:
        self._memory = mmap.mmap(
            -1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        )
        self._memory.write(_REQUEST_CODE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        kind = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
        self._function = kind(address)
        self.counts: list[int] = []

    def start(self) -> None:
        self._request(_START)

    def stop(self) -> None:
        self._request(_STOP)
        self._request(_DUMP)

    def _request(self, number: int) -> None:
        words = (ctypes.c_uint64 * 6)(number, 0, 0, 0, 0, 0)
        self._function(ctypes.addressof(words), 0)


if __name__ == "__main__":
    sys.exit(serve(answer))
