"""The worker protocol, with children that do what they are told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_PROGRAM = """
import os, signal, subprocess, sys, time
from etexport.admission import Admission
from etexport.worker import Worker

def execute(arguments, log):
    what = arguments[0] if arguments else "nothing"
    if what == "sleep":
        child = subprocess.Popen(["sleep", "100"])
        open(arguments[1], "w").write(f"{os.getpid()} {child.pid}")
        time.sleep(100)
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "exit":
        sys.exit(7)
    if what == "hard_exit":
        os._exit(7)
    if what == "print":
        print("garbage", flush=True)
        os.write(1, b"more garbage")
    if what == "where":
        return 0, os.getcwd()
    if what == "length":
        return 0, str(len(arguments[1]))
    return 0, what

responses = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
Worker(sys.stdin.buffer, responses, execute, Admission(int(sys.argv[1]))).serve()
"""


class Client:
    """Talks to a worker."""

    def __init__(self, memory: int) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(memory)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def send(self, **request: Any) -> None:
        """Sends one WorkRequest."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next WorkResponse."""
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def ask(self, *arguments: str, **request: Any) -> dict[str, Any]:
        """Sends and receives."""
        self.send(arguments=list(arguments), requestId=1, **request)
        return self.receive()


@pytest.fixture
def client() -> Iterator[Client]:
    """A worker with much memory."""
    made = Client(1 << 40)
    yield made
    made.process.kill()


def started(path: Path) -> list[int]:
    """The processes that a sleeping request has started."""
    for _ in range(200):
        if path.exists() and len(path.read_text().split()) == 2:
            return [int(number) for number in path.read_text().split()]
        time.sleep(0.05)
    raise AssertionError("the request did not start")


def gone(process: int) -> bool:
    """Whether a process has ended, within seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1][0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_responses_match_requests(client: Client) -> None:
    """Several at once, each answered under its number."""
    for number in range(1, 6):
        client.send(arguments=[f"r{number}"], requestId=number)
    answers = [client.receive() for _ in range(5)]
    assert {a["requestId"]: a["output"] for a in answers} == {n: f"r{n}" for n in range(1, 6)}


def test_cancellation_stops_the_work(client: Client, tmp_path: Path) -> None:
    """The child and what it started end before the answer."""
    client.send(arguments=["sleep", str(tmp_path / "pids")], requestId=4)
    processes = started(tmp_path / "pids")
    client.send(requestId=4, cancel=True)
    assert client.receive() == {"requestId": 4, "wasCancelled": True}
    assert all(gone(process) for process in processes)
    assert client.ask("still there")["output"] == "still there"


def test_a_killed_child_is_an_error(client: Client) -> None:
    """Its message says so; the worker lives."""
    answer = client.ask("die")
    assert answer["exitCode"] == 1
    assert "was killed by signal 9 (SIGKILL)" in answer["output"]
    assert "ran out of memory" in answer["output"]
    assert "exit code 7 before it had answered" in client.ask("hard_exit")["output"]
    assert client.ask("exit")["exitCode"] == 1
    assert client.ask("fine") == {"exitCode": 0, "output": "fine", "requestId": 1}


def test_output_of_a_child_stays_out_of_responses(client: Client) -> None:
    """What is printed goes to the log."""
    assert client.ask("print")["output"] == "print"


def test_long_requests(client: Client) -> None:
    """Two megabytes in a line."""
    assert client.ask("length", "x" * (2 << 20))["output"] == str(2 << 20)


def test_sandbox_folder(client: Client, tmp_path: Path) -> None:
    """A request runs in its own sandbox."""
    assert client.ask("where", sandboxDir=str(tmp_path))["output"] == str(tmp_path)


def test_end_of_input_ends_the_children(client: Client, tmp_path: Path) -> None:
    """Bazel closes the input when it is done with a worker."""
    client.send(arguments=["sleep", str(tmp_path / "pids")], requestId=4)
    processes = started(tmp_path / "pids")
    assert client.process.stdin
    client.process.stdin.close()
    assert client.process.wait(20) == 0
    assert all(gone(process) for process in processes)


def test_a_killed_worker_takes_its_children_along(client: Client, tmp_path: Path) -> None:
    """As Bazel does with a worker that it gives up."""
    client.send(arguments=["sleep", str(tmp_path / "pids")], requestId=4)
    processes = started(tmp_path / "pids")
    client.process.send_signal(signal.SIGKILL)
    client.process.wait(20)
    assert gone(processes[0])


def test_big_requests_take_turns(tmp_path: Path) -> None:
    """Where memory holds one, the second waits; a cancelled one leaves the queue."""
    client = Client(800 << 20)
    client.send(arguments=["sleep", str(tmp_path / "one")], requestId=1)
    client.send(arguments=["sleep", str(tmp_path / "two")], requestId=2)
    client.send(arguments=["sleep", str(tmp_path / "three")], requestId=3)
    started(tmp_path / "one")
    client.send(requestId=2, cancel=True)
    assert client.receive() == {"requestId": 2, "wasCancelled": True}
    assert not (tmp_path / "two").exists() and not (tmp_path / "three").exists()
    client.send(requestId=1, cancel=True)
    assert client.receive()["requestId"] == 1
    started(tmp_path / "three")
    client.process.kill()
