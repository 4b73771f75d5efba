"""Bazel's persistent worker protocol (JSON): imports once, one forked child per request.

Source: https://bazel.build/remote/creating. Importing torch and ExecuTorch takes longer than most
lowerings, so one process imports them and forks a child for each request. The parent runs a single
loop over Bazel's pipe and one pipe of each child; it never runs a model's code.

The parent must stay single-threaded: a fork copies only the thread that calls it, and a lock that
another thread holds would stay locked in the child. So nothing here may start a thread, and what is
imported before the first request (`lower.preload`) may not either. In return a child starts warm,
its memory goes back to the machine when it ends, and no state of it reaches the next request.

A request's life: `_take` queues it, `_start_waiting` starts it when `Admission` finds memory for it
and the machine has a process to give, `_child` executes it and writes one JSON object to its pipe,
`_read_child` answers Bazel when that pipe closes. A cancelled request (`_cancel`) is answered at
once while it waits; a running child is killed with all that it started, and answered when its pipe
closes, which is when its work has stopped and nothing writes to its outputs any more. A request
whose id comes again was forgotten by Bazel (`_abandon`) and is never answered. When Bazel closes
its end, all children are killed. A child that dies without an answer is reported with its
signal or exit code.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import signal
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from etlower import failure
from etlower.admission import Admission

# How often to look for children that are dead and whose pipe something else holds open.
_POLL_SECONDS = 1.0
# What a busy machine refuses for a while: processes, memory, open files.
_SCARCE = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
# How long to wait before each further attempt to start a child.
_RETRY_SECONDS = (0.1, 0.4, 1.0, 2.0, 4.0, 8.0)


@dataclass
class _Running:
    request_id: int
    process: int
    pipe: int
    memory: int
    output: bytearray = field(default_factory=bytearray)
    cancelled: bool = False
    status: int | None = None


class Worker:
    """Serves requests until its input ends.

    Args:
      requests: where WorkRequests come from, one JSON object a line.
      responses: where WorkResponses go; nothing else may be written there.
      execute: what a child does: arguments and log to exit code and message.
      admission: how many bytes of memory may be promised at once.
    """

    def __init__(
        self, requests: BinaryIO, responses: BinaryIO, execute: Any, admission: Admission
    ) -> None:
        self._requests = requests
        self._responses = responses
        self._execute = execute
        self._admission = admission
        self._selector = selectors.DefaultSelector()
        self._waiting: deque[tuple[dict[str, Any], int]] = deque()
        self._running: dict[int, _Running] = {}
        self._line = bytearray()
        self._open = True
        # How often the first of the waiting could not be started, and when to try again.
        self._refusals = 0
        self._retry_at = 0.0
        self._log = failure.log_of_worker()

    def serve(self) -> None:
        """Runs the loop; returns when the input has ended and all children, too."""
        self._selector.register(self._requests.fileno(), selectors.EVENT_READ)
        while self._open or self._running:
            for key, _ in self._selector.select(self._timeout()):
                if key.fd == self._requests.fileno():
                    self._open = self._read_requests()
                    if not self._open:
                        # Bazel is gone: nobody reads the answers.
                        self._selector.unregister(key.fd)
                        self._waiting.clear()
                        for child in self._running.values():
                            _kill(child.process)
                elif key.fd in self._running:
                    self._read_child(self._running[key.fd])
            for child in self._running.values():
                self._reap(child)
            self._start_waiting()

    def _timeout(self) -> float | None:
        """Seconds until there is something to do that nobody announces; None: never."""
        poll = _POLL_SECONDS if self._running else None
        if not (self._waiting and self._refusals):
            return poll
        retry = max(0.0, self._retry_at - time.monotonic())
        return retry if poll is None else min(poll, retry)

    def _read_requests(self) -> bool:
        data = os.read(self._requests.fileno(), 1 << 20)
        if not data:
            return False
        # Only what is new is searched: a request with many inputs comes in hundreds of pieces.
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._line) + lines[0]
            self._line.clear()
        self._line += rest
        for line in lines:
            if line.strip():
                self._take(json.loads(line))
        return True

    def _take(self, request: dict[str, Any]) -> None:
        request_id = request.get("requestId", 0)
        if request.get("cancel"):
            self._cancel(request_id)
        else:
            self._abandon(request_id)
            self._waiting.append((request, self._admission.need(request)))

    def _abandon(self, request_id: int) -> None:
        """Ends an earlier request with the id of a new one, without an answer.

        Unless it cancels requests, Bazel forgets those of a build that failed or was interrupted,
        and uses their ids again: it would take an old answer for the new request's.
        """
        for item in list(self._waiting):
            if item[0].get("requestId", 0) == request_id:
                self._waiting.remove(item)
                self._refusals = 0
        for child in list(self._running.values()):
            if child.request_id == request_id:
                self._close_pipe(child)
                _kill(child.process)
                self._reap(child, wait=True)

    def _cancel(self, request_id: int) -> None:
        for item in list(self._waiting):
            if item[0].get("requestId", 0) == request_id:
                self._waiting.remove(item)
                self._refusals = 0
                self._respond({"requestId": request_id, "wasCancelled": True})
                return
        for child in self._running.values():
            if child.request_id == request_id:
                # Answered when its pipe closes, which is when the work has really stopped.
                child.cancelled = True
                _kill(child.process)

    def _start_waiting(self) -> None:
        while self._waiting:
            request, memory = self._waiting[0]
            promised = sum(child.memory for child in self._running.values())
            if self._running and not self._admission.fits(promised, memory):
                return
            if self._refusals and time.monotonic() < self._retry_at:
                return
            try:
                self._start(request, memory)
            except OSError as error:
                if error.errno not in _SCARCE:
                    raise
                if self._refusals < len(_RETRY_SECONDS):
                    self._retry_at = time.monotonic() + _RETRY_SECONDS[self._refusals]
                    self._refusals += 1
                    return
                message = _no_process(error)
                self._respond(
                    {"exitCode": 1, "output": message, "requestId": request.get("requestId", 0)}
                )
            self._waiting.popleft()
            self._refusals = 0

    def _start(self, request: dict[str, Any], memory: int) -> None:
        """Starts a child.

        Raises:
          OSError: the machine has no process, memory or file for it; nothing has changed then.
        """
        read_end, write_end = os.pipe()
        try:
            process = os.fork()
        except OSError:
            os.close(read_end)
            os.close(write_end)
            raise
        if process == 0:
            self._child(request, write_end)
        os.close(write_end)
        child = _Running(request.get("requestId", 0), process, read_end, memory)
        self._running[read_end] = child
        self._selector.register(read_end, selectors.EVENT_READ)

    def _child(self, request: dict[str, Any], pipe: int) -> None:
        code, message = 1, "ERROR: the exporter's child ended early.\n"
        try:
            os.setpgid(0, 0)
            _end_with_parent()
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            # Whatever a library prints must not get between the responses.
            os.dup2(2, 1)
            os.chdir(request.get("sandboxDir") or ".")
            code, message = self._execute(request.get("arguments", []), self._log)
        except BaseException as error:
            message = f"ERROR: the exporter failed: {type(error).__name__}: {error}\n"
        finally:
            text = json.dumps({"exitCode": code, "output": message}).encode()
            with os.fdopen(pipe, "wb", closefd=False) as out:
                out.write(text)
            sys.stderr.flush()
            os._exit(0)

    def _read_child(self, child: _Running) -> None:
        data = os.read(child.pipe, 1 << 16)
        if data:
            child.output += data
            return
        self._close_pipe(child)
        if child.status is None:
            _kill(child.process)
            self._reap(child, wait=True)
        if child.cancelled:
            self._respond({"requestId": child.request_id, "wasCancelled": True})
            return
        try:
            answer = json.loads(child.output)
        except ValueError:
            answer = {"exitCode": 1, "output": _crash(child.status or 0, self._log)}
        self._respond({**answer, "requestId": child.request_id})

    def _close_pipe(self, child: _Running) -> None:
        self._selector.unregister(child.pipe)
        os.close(child.pipe)
        del self._running[child.pipe]

    def _reap(self, child: _Running, wait: bool = False) -> None:
        """Reaps a child that has ended, and ends what it started: that may hold its pipe open."""
        if child.status is None:
            process, status = os.waitpid(child.process, 0 if wait else os.WNOHANG)
            if process:
                child.status = status
                _kill_group(process)

    def _respond(self, response: dict[str, Any]) -> None:
        if not self._open:
            return
        self._responses.write(json.dumps(response).encode() + b"\n")
        self._responses.flush()


def _kill(process: int) -> None:
    """Kills a child and what it started; one that has no group yet has started nothing."""
    if not _kill_group(process):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def _kill_group(process: int) -> bool:
    try:
        os.killpg(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _end_with_parent() -> None:
    """Asks the kernel to kill this child when the worker dies; Linux only."""
    try:
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    except (OSError, AttributeError):
        return


def _no_process(error: OSError) -> str:
    name = errno.errorcode.get(error.errno or 0, "unknown")
    return (
        f"ERROR: the exporter cannot start a process for this lowering: {error.strerror} ({name}), "
        f"{len(_RETRY_SECONDS) + 1} attempts within {sum(_RETRY_SECONDS):g} seconds.\n"
        "Run fewer jobs at once (--jobs=1), or raise the limits of processes and open files "
        "(ulimit -u, ulimit -n) or the memory.\n"
    )


def _crash(status: int, log: str | None) -> str:
    tail = f" What it printed is in {log}.\n" if log else "\n"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        hint = (
            "The machine probably ran out of memory: run fewer jobs at once (--jobs=1) or give it "
            "more."
            if number == signal.SIGKILL
            else "This is a crash in native code of the exporter environment."
        )
        return (
            f"ERROR: the lowering's process was killed by signal {number} ({name}).\n{hint}" + tail
        )
    code = os.WEXITSTATUS(status)
    return (
        f"ERROR: the lowering's process ended with exit code {code} before it had answered." + tail
    )
