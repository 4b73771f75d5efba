"""Remote execution with a real executor: where actions run, and the traffic."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from client import ADAPTER_BYTES, FOUNDATION_BYTES, OUR_MNEMONICS, Built, Client
from counting_proxy import CountingProxy
from dev.remote import Engines, Executor


def test_all_actions_run_remotely(built: Built) -> None:
    """A worker with a shell, coreutils and the C and C++ libraries runs all actions."""
    app = built.client.workspace.folder / "bazel-bin/app"
    data = [str(path) for path in sorted((app / "data").iterdir())]
    command = [str(app / "runner"), str(app / "programs/task.pte"), *data]
    assert len(data) == 2
    assert float(subprocess.run(command, capture_output=True, check=True).stdout)


def test_a_second_client_runs_nothing(executor: Executor, built: Built, second: Client) -> None:
    """Downloads no outputs first, then the named ones."""
    second.begin(built.adapter)
    ran = second.build(*executor.flags, "--config=remote-minimal")
    assert set(ran.runners) == {"remote cache hit"}
    assert ran.mnemonics >= OUR_MNEMONICS
    assert second.outputs() == {}
    ran = second.build(*executor.flags, "--remote_download_outputs=toplevel")
    assert set(ran.runners) <= {"remote cache hit"}
    assert second.outputs() == built.outputs


def test_a_program_test_runs_remotely(executor: Executor, built: Built) -> None:
    """Tests run with Bazel's own scripts and the runtime in the exporter's environment."""
    ran = built.client.build(*executor.flags, "//:task_test", command="test")
    assert set(ran.runners) == {"remote"}
    assert "TestRunner" in ran.mnemonics


def test_a_changed_adapter_moves_no_foundation(executor: Executor, built: Built) -> None:
    """Bytes on the wire, and growth of the store."""

    def stored() -> dict[Path, int]:
        objects = (executor.directory / "cas/objects").rglob("*")
        return {path: path.stat().st_size for path in objects if path.is_file()}

    before = stored()
    built.client.change_adapter(0.04)
    with CountingProxy(executor.port) as proxy:
        through = [flag.replace(f":{executor.port}", f":{proxy.port}") for flag in executor.flags]
        ran = built.client.build(*through, "//:task", "//:foundation")
        moved = proxy.sent, proxy.received
    assert ran.runners == {"remote": 2}
    # Most of it are digests: Bazel asks whether the executor has the exporter's environment.
    assert ADAPTER_BYTES < sum(moved) < FOUNDATION_BYTES / 4, moved
    new = sum(size for path, size in stored().items() if path not in before)
    # As an input, in the lowered program and in the linked one; the rest are tables.
    assert 3 * ADAPTER_BYTES <= new < 10 * ADAPTER_BYTES


def test_the_end_of_an_executor_ends_its_actions(engines: Engines, built: Built) -> None:
    """The client reports it, and no process remains."""

    def sleeping() -> bool:
        return any(_command_line(p) == b"sleep\x004321\x00" for p in Path("/proc").glob("[0-9]*"))

    package = built.client.workspace.folder / "slow"
    package.mkdir()
    slow = 'genrule(name = "slow", outs = ["out"], cmd = "sleep 4321; touch $@")\n'
    (package / "BUILD.bazel").write_text(slow)
    with ThreadPoolExecutor() as pool:
        with Executor(engines, root=engines.worker) as server:
            flags = [*server.flags, "--remote_retries=0"]
            failing = pool.submit(built.client.workspace.failed, *flags, "//slow")
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
