"""Faults around a build cost a retry, and never produce a wrong artifact."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from etcli.reproduce import checkout

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace
from processes import kill, lowerings, wait_for, workers

pytestmark = pytest.mark.release

_SLOW = """
import time

import nets
import torch


def build(ctx):
    # Long enough to be disturbed.
    time.sleep(2)
    return nets.Classifier(64), (torch.ones(1, 64),)


def large(ctx):
    net = torch.nn.Linear(8192, 8192)
    return net, (torch.ones(1, 8192),)
"""
_TARGETS = """
et_model(
    name = "slow",
    srcs = ["nets.py", "slow.py"],
    entry_point = "slow:build",
    deps = ["//lib:layers"],
)

et_program(
    name = "slow_portable",
    model = ":slow",
    recipe = "@rules_executorch//backends/portable:fp32",
)

et_model(
    name = "large",
    srcs = ["nets.py", "slow.py"],
    entry_point = "slow:large",
    deps = ["//lib:layers"],
)

et_program(
    name = "large_portable",
    model = ":large",
    recipe = "@rules_executorch//backends/portable:fp32",
)

genrule(
    name = "fails",
    outs = ["none"],
    cmd = "sleep 1; exit 1",
)
"""
_PROGRAM = "//:slow_portable"


@pytest.fixture(scope="module")
def workspace(shared: Workspace) -> Workspace:
    """With a program whose lowering takes long enough to be disturbed."""
    shared.lay("tests/e2e/smoke")
    (shared.folder / "slow.py").write_text(_SLOW)
    build = shared.folder / "BUILD.bazel"
    build.write_text(build.read_text() + _TARGETS)
    shared.run("build", _PROGRAM)
    return shared


@pytest.fixture(scope="module")
def right(workspace: Workspace) -> bytes:
    """The program of an undisturbed build."""
    return program(workspace)


def program(workspace: Workspace) -> bytes:
    return (workspace.folder / "bazel-bin/slow_portable.pte").read_bytes()


def make_stale(workspace: Workspace) -> None:
    """Makes the next build lower again, in the running worker, which `clean` would end."""
    with (workspace.folder / "slow.py").open("a") as out:
        out.write("# One more comment.\n")


def remove_outputs(workspace: Workspace) -> None:
    """Removes the program and what it is linked from, so that the next build needs them anew."""
    for path in (workspace.folder / "bazel-out").glob("*/bin/slow_portable*"):
        subprocess.run(["chmod", "-R", "u+w", str(path)], check=True)
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def start(workspace: Workspace, *arguments: str) -> subprocess.Popen[str]:
    """A build that lowers during the test."""
    make_stale(workspace)
    return subprocess.Popen(
        [
            workspace.module / "bazelw",
            *workspace.startup,
            "build",
            *workspace.overrides,
            *arguments,
            _PROGRAM,
        ],
        cwd=workspace.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def check_next_build(workspace: Workspace, right: bytes) -> None:
    workspace.run("build", _PROGRAM)
    assert program(workspace) == right


def test_a_killed_worker(workspace: Workspace, right: bytes) -> None:
    running = start(workspace)
    wait_for(lambda: lowerings(workspace.base), "a lowering")
    kill(workers(workspace.base))
    printed = running.communicate()[0]
    assert running.returncode == 1, printed
    assert "Lowering //:slow_portable.lowering [for tool] failed" in printed, printed
    wait_for(lambda: not lowerings(workspace.base), "the end of the lowering")
    check_next_build(workspace, right)


def test_a_killed_lowering(workspace: Workspace, right: bytes) -> None:
    """Like the kernel when memory runs out."""
    running = start(workspace)
    wait_for(lambda: lowerings(workspace.base), "a lowering")
    kill(lowerings(workspace.base))
    printed = running.communicate()[0]
    assert running.returncode == 1, printed
    assert "the lowering's process was killed by signal 9" in printed, printed
    assert "memory" in printed, printed
    check_next_build(workspace, right)


def test_a_build_after_a_failed_one(workspace: Workspace, right: bytes) -> None:
    """Bazel leaves a lowering of a failed build running; it does not answer for the next one."""
    make_stale(workspace)
    workspace.failed("//:fails", _PROGRAM)
    make_stale(workspace)
    check_next_build(workspace, right)


def test_bounded_memory(workspace: Workspace) -> None:
    """A lowering that exceeds the address space gives an error that says so."""
    workspace.run("build", _PROGRAM)
    (worker,) = workers(workspace.base)
    limits = resource.prlimit(worker, resource.RLIMIT_AS)
    used = int(Path(f"/proc/{worker}/statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(worker, resource.RLIMIT_AS, (used + (200 << 20), limits[1]))
    printed = workspace.failed("//:large_portable")
    assert "//:large_portable" in printed, printed
    assert "memory" in printed, printed
    assert not (workspace.folder / "bazel-bin/large_portable.pte").exists()
    resource.prlimit(worker, resource.RLIMIT_AS, limits)
    workspace.run("build", "//:large_portable")
    assert (workspace.folder / "bazel-bin/large_portable.pte").stat().st_size > 256 << 20


def test_an_interrupted_build(workspace: Workspace, right: bytes) -> None:
    """Ctrl-C ends the lowering, not only the wait for it."""
    running = start(workspace)
    wait_for(lambda: lowerings(workspace.base), "a lowering")
    os.killpg(running.pid, signal.SIGINT)
    printed = running.communicate()[0]
    assert running.returncode == 8, printed
    wait_for(lambda: not lowerings(workspace.base), "the end of the lowering")
    check_next_build(workspace, right)


def test_two_builds_at_once(workspace: Workspace, right: bytes, tmp_path: Path) -> None:
    """Two output bases fill one disk cache at the same time."""
    other = Workspace(tmp_path / "two", base="other", compiled_once=False)
    for name in ("BUILD.bazel", "slow.py"):
        (other.folder / name).write_text((workspace.folder / name).read_text())
    # Of the rules' own actions, too.
    cache = [f"--disk_cache={tmp_path / 'cache'}", "--modify_execution_info="]
    remove_outputs(workspace)
    try:
        together = [
            threading.Thread(target=one.run, args=("build", *cache, _PROGRAM))
            for one in (workspace, other)
        ]
        for thread in together:
            thread.start()
        for thread in together:
            thread.join()
        assert program(workspace) == right
        assert program(other) == right
        other.run("clean")
        assert "2 disk cache hit" in other.run("build", *cache, _PROGRAM)
        assert program(other) == right
    finally:
        other.close()


def test_a_damaged_blob_in_a_disk_cache(workspace: Workspace, right: bytes, tmp_path: Path) -> None:
    """The damage is detected; without that cache the build succeeds."""
    cache = tmp_path / "cache"
    # Linked here, from the lowered program in the cache.
    flags = [f"--disk_cache={cache}", "--modify_execution_info=EtLink=+no-cache"]
    make_stale(workspace)
    workspace.run("build", *flags, _PROGRAM)
    largest = max(
        (p for p in (cache / "cas").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size
    )
    largest.chmod(0o644)
    damaged = bytearray(largest.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    largest.write_bytes(damaged)
    remove_outputs(workspace)
    printed = workspace.failed(*flags, _PROGRAM)
    assert "//:slow_portable" in printed, printed
    # Bazel's own check; where a cache has none, the linker's is the next.
    assert "does not match received digest" in printed, printed
    remove_outputs(workspace)
    check_next_build(workspace, right)


def test_a_full_disk(workspace: Workspace, right: bytes, tmp_path: Path) -> None:
    """The output base is in a file system that is too small for the program."""
    small = tmp_path / "small"
    small.mkdir()
    base = small / "base"
    bazel = f"{workspace.module}/bazelw --output_base={base}"
    script = f"""
mount -t tmpfs -o size=170m none {small} || exit 99
{bazel} build {shlex.join(workspace.overrides)} //:large_portable
code=$?
find {base} -name large_portable.pte
{bazel} shutdown
exit $code
"""
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        cwd=workspace.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "No space left on device" in done.stderr
    assert "large_portable.pte" not in done.stdout
    check_next_build(workspace, right)


def test_code_of_a_worker_that_changes(workspace: Workspace, right: bytes, tmp_path: Path) -> None:
    """A running worker does not use the old code."""
    copy = tmp_path / "module"
    checkout.copy(workspace.module, copy)
    workspace.replace("MODULE.bazel", f'path = "{workspace.module}"', f'path = "{copy}"')
    try:
        check_next_build(workspace, right)
        before = workers(workspace.base)
        source = copy / "tools/etlower/lower.py"
        text = source.read_text()
        assert '"label": index.label,' in text
        source.write_text(text.replace('"label": index.label,', '"label": index.label, "new": 1,'))
        workspace.run("build", "--output_groups=lowered", _PROGRAM)
        lowered = (workspace.folder / "bazel-out").glob("*/bin/slow_portable.lowered/lowering.json")
        (index,) = lowered
        assert '"new": 1' in index.read_text()
        assert not set(before) & set(workers(workspace.base))
    finally:
        workspace.replace("MODULE.bazel", f'path = "{copy}"', f'path = "{workspace.module}"')


@pytest.mark.parametrize("file", ["nets.py", "slow.py"])
def test_a_build_beside_an_edit(workspace: Workspace, right: bytes, file: str) -> None:
    """The next build lowers again after a source changed during its lowering."""
    running = start(workspace)
    wait_for(lambda: lowerings(workspace.base), "a lowering")
    path = workspace.folder / file
    text = path.read_text()
    path.write_text(text + "# A comment.\n")
    running.communicate()
    assert "EtLower //:slow_portable.lowering" in workspace.build(_PROGRAM)
    assert program(workspace) == right
    path.write_text(text)
