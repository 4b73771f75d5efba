"""Remote execution with a real executor: what runs where, what moves, and the same bytes."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from client import ADAPTER_BYTES, FOUNDATION_BYTES, SAME_PLATFORM, Client
from counting_proxy import CountingProxy
from etremote import Engines, Executor

_OURS = {
    "CppCompile",
    "CppLink",
    "EtApp",
    "EtArchive",
    "EtFit",
    "EtLink",
    "EtLower",
    "EtScan",
    "EtShare",
}


@pytest.fixture(scope="module")
def built(executor: Executor, first: Client) -> Client:
    """The first client, when it has built all, and each action on the worker."""
    first.begin(adapter=0.01)
    ran = first.build(*executor.flags)
    assert set(ran.runners) == {"remote"}
    assert ran.mnemonics >= _OURS
    return first


def test_all_actions_run_remotely(built: Client) -> None:
    """On a worker that has a shell, coreutils and the C and C++ libraries; and the app works."""
    app = built.workspace.folder / "bazel-bin/app"
    data = [str(path) for path in sorted((app / "data").iterdir())]
    command = [str(app / "runner"), str(app / "programs/task.pte"), *data]
    assert len(data) == 2
    assert float(subprocess.run(command, capture_output=True, check=True).stdout)


def test_a_second_client_runs_nothing(executor: Executor, built: Client, second: Client) -> None:
    """First it asks for no outputs, then for those that it names."""
    second.begin(adapter=0.01)
    ran = second.build(*executor.flags, "--config=remote-minimal")
    assert set(ran.runners) == {"remote cache hit"}
    assert ran.mnemonics >= _OURS
    assert second.outputs() == {}
    ran = second.build(*executor.flags, "--remote_download_outputs=toplevel")
    assert set(ran.runners) <= {"remote cache hit"}
    there = built.outputs()
    assert {"app.tar.zst", "app/runner", "foundation.ptd", "task.pte", "task.ptd"} <= set(there)
    assert second.outputs() == there


def test_the_same_bytes_without_an_executor(built: Client, second: Client) -> None:
    """In another folder, by workers and sandboxes of this machine."""
    second.begin(adapter=0.01)
    ran = second.build(*SAME_PLATFORM)
    assert ran.runners and not {name for name in ran.runners if "remote" in name}
    assert second.outputs() == built.outputs()


def test_a_program_test_runs_remotely(executor: Executor, built: Client) -> None:
    """With Bazel's own scripts, and the runtime in the exporter's environment."""
    ran = built.build(*executor.flags, "//:task_test", command="test")
    assert set(ran.runners) == {"remote"}
    assert "TestRunner" in ran.mnemonics


def test_a_changed_adapter_moves_no_foundation(executor: Executor, built: Client) -> None:
    """Bytes on the wire, and what is new in the store."""

    def stored() -> dict[Path, int]:
        objects = (executor.directory / "cas/objects").rglob("*")
        return {path: path.stat().st_size for path in objects if path.is_file()}

    before = stored()
    built.change_adapter(0.04)
    with CountingProxy(executor.port) as proxy:
        through = [flag.replace(f":{executor.port}", f":{proxy.port}") for flag in executor.flags]
        ran = built.build(*through, "//:task", "//:foundation")
        moved = proxy.sent, proxy.received
    assert ran.runners == {"remote": 2}
    # Most of it are digests: Bazel asks whether the executor has the exporter's environment.
    assert ADAPTER_BYTES < sum(moved) < FOUNDATION_BYTES / 4, moved
    new = sum(size for path, size in stored().items() if path not in before)
    # As an input, in the lowered program and in the linked one; the rest are tables.
    assert 3 * ADAPTER_BYTES <= new < 10 * ADAPTER_BYTES


def test_the_end_of_an_executor_ends_its_actions(engines: Engines, built: Client) -> None:
    """The client gets to know, and nothing goes on running."""

    def sleeping() -> bool:
        return any(_command_line(p) == b"sleep\x004321\x00" for p in Path("/proc").glob("[0-9]*"))

    package = built.workspace.folder / "slow"
    package.mkdir()
    slow = 'genrule(name = "slow", outs = ["out"], cmd = "sleep 4321; touch $@")\n'
    (package / "BUILD.bazel").write_text(slow)
    with ThreadPoolExecutor() as pool:
        with Executor(engines, root=engines.worker) as server:
            flags = [*server.flags, "--remote_retries=0"]
            failing = pool.submit(built.workspace.failed, *flags, "//slow")
            while not sleeping() and not failing.done():
                time.sleep(0.1)
            assert sleeping()
        assert not sleeping()
        assert not server.scratch.exists()
        assert "//slow:slow failed" in failing.result()


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
