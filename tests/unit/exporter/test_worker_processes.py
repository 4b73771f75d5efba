"""The worker: what its children leave behind, odd requests, crashes. Needs no torch."""

from __future__ import annotations

import errno
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_worker import FakeWorker, fake_worker, gone, noted


@pytest.fixture
def worker() -> Iterator[FakeWorker]:
    """A running worker."""
    with fake_worker() as result:
        yield result


def test_what_a_request_leaves_running_ends_with_it(worker: FakeWorker, tmp_path: Path) -> None:
    start = time.monotonic()
    answer = worker.ask("leave_behind", str(tmp_path / "pids"))
    assert answer == {"exitCode": 0, "output": "leave_behind", "requestId": 1}
    assert time.monotonic() - start < 20
    assert [gone(process) for process in noted(tmp_path / "pids")] == [True] * 3
    assert worker.ask("next")["output"] == "next"


def test_nothing_of_a_request_reaches_the_next(worker: FakeWorker) -> None:
    before = worker.ask("state")["output"]
    assert before.startswith("(False, ")
    assert worker.ask("litter")["exitCode"] == 0
    assert worker.ask("state")["output"] == before


def test_a_request_of_an_id_that_runs_takes_its_place(worker: FakeWorker, tmp_path: Path) -> None:
    """As after a failed build: Bazel takes the first answer for that to the new request."""
    worker.send("sleep", str(tmp_path / "pids"), requestId=1)
    processes = noted(tmp_path / "pids")
    assert worker.ask("next") == {"exitCode": 0, "output": "next", "requestId": 1}
    assert [gone(process) for process in processes] == [True] * 2
    assert worker.ask("after")["output"] == "after"


def test_children_read_nothing_of_the_requests(worker: FakeWorker) -> None:
    worker.send("read", requestId=1)
    worker.send("after", requestId=2)
    answers = {a["requestId"]: a["output"] for a in (worker.receive(), worker.receive())}
    assert answers == {1: "''b''", 2: "after"}


def test_exit_codes_and_messages_are_handed_on(worker: FakeWorker) -> None:
    assert worker.ask("fail") == {"exitCode": 3, "output": "ERROR: as told", "requestId": 1}


def test_long_messages_are_handed_on(worker: FakeWorker) -> None:
    assert len(worker.ask("long", "3000000")["output"]) == 3000000


def test_a_request_without_a_number_has_number_0(worker: FakeWorker) -> None:
    worker.send("single")
    assert worker.receive() == {"exitCode": 0, "output": "single", "requestId": 0}


def test_requests_come_in_pieces_and_together(worker: FakeWorker) -> None:
    first, second = (json.dumps({"arguments": [f"r{n}"], "requestId": n}) for n in (1, 2))
    whole = f"{first}\n\n{second}\n".encode()
    worker.write(whole[:10])
    time.sleep(0.1)
    worker.write(whole[10:])
    answers = {a["requestId"]: a["output"] for a in (worker.receive(), worker.receive())}
    assert answers == {1: "r1", 2: "r2"}


def test_a_cancellation_that_comes_too_late_is_ignored(worker: FakeWorker) -> None:
    assert worker.ask("done")["output"] == "done"
    worker.send(requestId=1, cancel=True)
    worker.send(requestId=77, cancel=True)
    worker.send("again", requestId=2)
    assert worker.receive() == {"exitCode": 0, "output": "again", "requestId": 2}


def test_other_requests_survive_a_cancellation(worker: FakeWorker, tmp_path: Path) -> None:
    worker.send("sleep", str(tmp_path / "one"), requestId=1)
    worker.send("sleep", str(tmp_path / "two"), requestId=2)
    first, second = noted(tmp_path / "one"), noted(tmp_path / "two")
    worker.send(requestId=1, cancel=True)
    assert worker.receive() == {"requestId": 1, "wasCancelled": True}
    assert [gone(process) for process in first] == [True, True]
    assert [gone(process, 0.1) for process in second] == [False, False]
    worker.send(requestId=2, cancel=True)
    assert worker.receive() == {"requestId": 2, "wasCancelled": True}


def test_a_sandbox_that_is_not_there(worker: FakeWorker, tmp_path: Path) -> None:
    answer = worker.ask("anything", sandboxDir=str(tmp_path / "nowhere"))
    assert answer["exitCode"] == 1
    assert answer["output"].startswith("ERROR: the exporter failed: FileNotFoundError: ")
    assert worker.ask("alive")["output"] == "alive"


def test_a_crash_in_native_code_names_the_signal_and_the_log(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with fake_worker(log) as worker:
        answer = worker.ask("signal", str(int(signal.SIGSEGV)))
        assert answer == {
            "exitCode": 1,
            "output": "ERROR: the lowering's process was killed by signal 11 (SIGSEGV).\n"
            "This is a crash in native code of the exporter environment. What it printed is in "
            f"{log}.\n",
            "requestId": 1,
        }
        assert worker.ask("alive")["output"] == "alive"


def test_running_out_of_memory_is_suggested_for_a_kill(worker: FakeWorker) -> None:
    output = worker.ask("signal", str(int(signal.SIGKILL)))["output"]
    assert output.startswith(
        "ERROR: the lowering's process was killed by signal 9 (SIGKILL).\n"
        "The machine probably ran out of memory: run fewer jobs at once (--jobs=1)"
    )


def test_when_bazel_is_gone_the_worker_ends_quietly(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with fake_worker(log) as worker:
        worker.send("sleep", str(tmp_path / "one"), requestId=1)
        worker.send("sleep", str(tmp_path / "two"), requestId=2)
        processes = noted(tmp_path / "one") + noted(tmp_path / "two")
        assert worker.process.stdin is not None
        assert worker.process.stdout is not None
        worker.process.stdout.close()
        worker.process.stdin.close()
        assert worker.process.wait(20) == 0
        assert [gone(process) for process in processes] == [True] * 4
    assert log.read_text() == ""


def test_what_a_crashed_request_leaves_running_ends_with_it(
    worker: FakeWorker, tmp_path: Path
) -> None:
    answer = worker.ask("leave_behind", str(tmp_path / "pids"), str(int(signal.SIGABRT)))
    assert "was killed by signal 6 (SIGABRT)" in answer["output"]
    assert [gone(process) for process in noted(tmp_path / "pids")] == [True] * 3


@pytest.mark.parametrize("function", ["fork", "pipe"])
@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
@pytest.mark.few(1)
def test_a_process_that_can_not_be_started_is_tried_again(
    function: str, number: int, tmp_path: Path
) -> None:
    """The request waits; one that runs, and the worker, go on."""
    fault = tmp_path / "fault"
    with fake_worker(fault=(function, fault, 1)) as worker:
        worker.send("sleep", str(tmp_path / "one"), requestId=1)
        running = noted(tmp_path / "one")
        fault.write_text(str(number))
        worker.send("later", requestId=2)
        attempts = tmp_path / "fault.attempts"
        end = time.monotonic() + 20
        while not attempts.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        fault.unlink()
        assert worker.receive() == {"exitCode": 0, "output": "later", "requestId": 2}
        assert [gone(process, 0.1) for process in running] == [False, False]
        worker.send(requestId=1, cancel=True)
        assert worker.receive() == {"requestId": 1, "wasCancelled": True}


def test_a_process_that_can_never_be_started_is_an_error(tmp_path: Path) -> None:
    fault = tmp_path / "fault"
    with fake_worker(fault=("fork", fault, 0.1)) as worker:
        worker.send("sleep", str(tmp_path / "one"), requestId=1)
        running = noted(tmp_path / "one")
        fault.write_text(str(errno.EAGAIN))
        worker.send("never", requestId=2)
        answer = worker.receive()
        assert (answer["exitCode"], answer["requestId"]) == (1, 2)
        assert answer["output"].startswith(
            "ERROR: the exporter cannot start a process for this lowering: Resource temporarily "
            "unavailable (EAGAIN), 4 attempts within 0.3 seconds.\nRun fewer jobs at once"
        )
        assert (tmp_path / "fault.attempts").read_text() == "xxxx"
        assert [gone(process, 0.1) for process in running] == [False, False]
        fault.unlink()
        assert worker.ask("alive")["output"] == "alive"


def test_a_request_that_waits_for_a_process_can_be_cancelled(tmp_path: Path) -> None:
    fault = tmp_path / "fault"
    fault.write_text(str(errno.EAGAIN))
    with fake_worker(fault=("fork", fault, 60)) as worker:
        worker.send("never", requestId=1)
        while not (tmp_path / "fault.attempts").exists():
            time.sleep(0.01)
        worker.send(requestId=1, cancel=True)
        assert worker.receive() == {"requestId": 1, "wasCancelled": True}
        fault.unlink()
        worker.send("next", requestId=2)
        assert worker.receive() == {"exitCode": 0, "output": "next", "requestId": 2}
