"""A worker in a process of its own, whose requests do what their first argument says."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PROGRAM = """
import multiprocessing, os, signal, subprocess, sys, time
from etlower import worker
from etlower.admission import Admission
from etlower.worker import Worker

def note(path, *processes):
    with open(path + ".part", "w") as out:
        out.write(" ".join(str(p) for p in (os.getpid(), *processes)))
    os.rename(path + ".part", path)

def execute(arguments, log):
    what, *rest = arguments
    if what == "sleep":
        note(rest[0], subprocess.Popen(["sleep", "100"]).pid)
        time.sleep(100)
    elif what == "leave_behind":
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(100,))
        child.start()
        note(rest[0], child.pid, subprocess.Popen(["sleep", "100"]).pid)
        if len(rest) > 1:
            os.kill(os.getpid(), int(rest[1]))
    elif what == "signal":
        os.kill(os.getpid(), int(rest[0]))
        time.sleep(100)
    elif what == "litter":
        os.environ["LITTER"] = "here"
        os.chdir("/")
        sys.modules["litter"] = sys
    elif what == "state":
        return 0, str(("LITTER" in os.environ, os.getcwd(), "litter" in sys.modules))
    elif what == "read":
        return 0, repr(sys.stdin.read()) + repr(os.read(0, 10))
    elif what == "fail":
        return 3, "ERROR: as told"
    elif what == "long":
        return 0, "x" * int(rest[0])
    return 0, what

def faulty(original, path):
    # Fails with the number of an error that a file holds, while there is the file.
    def call():
        if os.path.exists(path):
            number = int(open(path).read())
            open(path + ".attempts", "a").write("x")
            raise OSError(number, os.strerror(number))
        return original()
    return call

if len(sys.argv) > 1:
    name, path, seconds = sys.argv[1:]
    setattr(os, name, faulty(getattr(os, name), path))
    worker._RETRY_SECONDS = (float(seconds),) * 3
responses = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
Worker(sys.stdin.buffer, responses, execute, Admission(1 << 40)).serve()
"""


class FakeWorker:
    """Talks to the worker as Bazel does.

    Args:
      log: file for its standard error; None: the test's own.
      fault: a function of `os`, which fails with the number in a file while there is the file;
        the file; and the seconds between attempts.
    """

    def __init__(
        self, log: Path | None = None, fault: tuple[str, Path, float] | None = None
    ) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with contextlib.ExitStack() as stack:
            errors = stack.enter_context(open(log, "wb")) if log else None
            self.process = subprocess.Popen(
                [sys.executable, "-B", "-c", _PROGRAM, *map(str, fault or ())],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def write(self, data: bytes) -> None:
        """Writes bytes to its input."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *arguments: str, **request: Any) -> None:
        """Sends one WorkRequest."""
        self.write(json.dumps({"arguments": list(arguments), **request}).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next WorkResponse."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, *arguments: str, **request: Any) -> dict[str, Any]:
        """Sends one WorkRequest and returns its answer."""
        self.send(*arguments, requestId=1, **request)
        return self.receive()

    def close(self) -> None:
        """Ends it and closes the pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


@contextlib.contextmanager
def fake_worker(
    log: Path | None = None, fault: tuple[str, Path, float] | None = None
) -> Iterator[FakeWorker]:
    """A running worker."""
    result = FakeWorker(log, fault)
    try:
        yield result
    finally:
        result.close()


def noted(path: Path, seconds: float = 20) -> list[int]:
    """The processes that a request has written down, its own first."""
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, "the request did not start"
        time.sleep(0.01)
    return [int(number) for number in path.read_text().split()]


def gone(process: int, seconds: float = 10) -> bool:
    """Tells whether a process ends within the time; one that waits to be reaped has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(process, 0)
            if os.uname().sysname == "Linux":
                state = Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1][0]
                if state in "ZX":
                    return True
        except OSError:
            return True
        time.sleep(0.02)
    return False
