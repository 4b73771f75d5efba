"""The command `bazel run //tools/dev/remote`: start, messages, and cleanup."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dev.remote import Engines, Executor, GrpcCache, HttpCache, ServerError, load_engines

_KINDS = ["http-cache", "grpc-cache", "executor"]
_SERVERS = [HttpCache, GrpcCache, Executor]


@pytest.fixture(scope="module")
def engines() -> Engines:
    """The engines of the servers."""
    return load_engines()


@contextmanager
def command(*arguments: str, scratch: Path) -> Iterator[subprocess.Popen[str]]:
    """The command; killed at the end of the test if it still runs."""
    program = Path("tools/dev/remote/remote").absolute()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    process = subprocess.Popen(
        [program, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=scratch,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until_it_answers(process: subprocess.Popen[str]) -> tuple[str, list[str]]:
    """Its output: the address, and Bazel's flags."""
    assert process.stdout
    said = [process.stdout.readline() for _ in range(3)]
    assert said[2].startswith("Ctrl-C"), (said, process.stderr and process.stderr.read())
    address = said[0].split(" answers at ")[1].split()[0]
    return address, said[1].split()


def running_in(scratch: Path) -> list[str]:
    """Command lines of processes that name a folder, in arguments or environment."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if str(scratch).encode() in line:
                lines.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", _KINDS)
def test_it_starts_and_leaves_nothing(kind: str, number: int, tmp_path: Path) -> None:
    """Leaves neither processes nor temporary files."""
    with command(kind, "--port=0", scratch=tmp_path) as process:
        address, flags = until_it_answers(process)
        assert flags[-1].endswith(f"={address}")
        assert running_in(tmp_path) and list(tmp_path.iterdir())
        process.send_signal(number)
        assert process.wait(20) == 0
    assert running_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", _KINDS)
def test_a_given_directory_is_kept(kind: str, tmp_path: Path) -> None:
    """Keeps the directory with its contents, and nothing else."""
    kept, scratch = tmp_path / "kept", tmp_path / "scratch"
    scratch.mkdir()
    with command(kind, "--port=0", f"--directory={kept}", scratch=scratch) as process:
        until_it_answers(process)
        process.terminate()
        assert process.wait(20) == 0
    assert list(kept.iterdir())
    assert list(scratch.iterdir()) == []


def test_what_a_cache_keeps_is_there_next_time(engines: Engines, tmp_path: Path) -> None:
    """Entries of an HTTP cache; other paths of the machine are neither read nor written."""
    name = "ab" * 32
    (tmp_path / "secret").write_text("s")
    with HttpCache(engines, directory=tmp_path / "cache") as server:
        for kind in ("ac", "cas"):
            url = f"{server.address}/{kind}/{name}"
            put = urllib.request.Request(url, data=b"contents", method="PUT")
            assert urllib.request.urlopen(put).status == 201
        for path in ("../secret", "cas/../../secret", f"cas/{name}x", "incoming/1", f"x/{name}"):
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(f"{server.address}/{path}")
        delete = urllib.request.Request(f"{server.address}/cas/{name}", method="DELETE")
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(delete)
    with HttpCache(engines, directory=tmp_path / "cache") as server:
        got = urllib.request.urlopen(f"{server.address}/cas/{name}").read()
    assert got == b"contents"


@pytest.mark.parametrize("kind", _SERVERS)
def test_a_busy_port(engines: Engines, kind: type[HttpCache], tmp_path: Path) -> None:
    """A second gRPC server would share the port silently."""
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        server = kind(engines, port=port, directory=tmp_path / "never")
        with pytest.raises(ServerError) as caught, server:
            pass
    text = str(caught.value)
    assert f"{kind.name}: port {port} of 127.0.0.1 cannot be used: Address already in use" in text
    assert "--port=0 takes a free one" in text
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("kind", _SERVERS)
def test_a_directory_that_is_none(engines: Engines, kind: type[HttpCache], tmp_path: Path) -> None:
    """A file has the path of the directory."""
    (tmp_path / "file").touch()
    with pytest.raises(ServerError) as caught, kind(engines, directory=tmp_path / "file/cache"):
        pass
    text = str(caught.value)
    assert (
        f"{kind.name}: the directory {tmp_path}/file/cache cannot be written to: Not a dir" in text
    )
    assert "choose another with --directory" in text


def test_messages_of_the_command(tmp_path: Path) -> None:
    """The error has no stack trace."""
    with command("http-cache", "--port=0", "--directory=/proc/cache", scratch=tmp_path) as process:
        _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said.startswith("error: http-cache: the directory /proc/cache cannot be written to: ")
    with command("executor", "--jobs=0", scratch=tmp_path) as process:
        _, said = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "--jobs: 0: not a number of actions: expected 1 or more" in said
    assert list(tmp_path.iterdir()) == []


def test_a_root_without_a_system(engines: Engines, tmp_path: Path) -> None:
    """A root that actions cannot run in."""
    with pytest.raises(ServerError) as caught, Executor(engines, root=tmp_path):
        pass
    assert f"executor: {tmp_path} has no folder usr" in str(caught.value)


def test_a_system_without_sandboxes(engines: Engines, tmp_path: Path) -> None:
    """The error comes before any action."""
    broken = dataclasses.replace(engines, bubblewrap=tmp_path)
    with pytest.raises(ServerError) as caught, Executor(broken):
        pass
    assert "executor: no sandbox can be made for actions: " in str(caught.value)
    assert "Allow user namespaces" in str(caught.value)


@pytest.mark.parametrize("kind", _SERVERS)
def test_a_server_that_dies(engines: Engines, kind: type[HttpCache]) -> None:
    """A waiting client is notified."""
    with kind(engines) as server:
        assert server._process
        os.kill(server._process.pid, signal.SIGKILL)
        with pytest.raises(ServerError, match=f"{kind.name}: the server ended by itself, exit"):
            server.wait()


def test_servers_end_with_whoever_started_them(tmp_path: Path) -> None:
    """Also if the command is killed and cannot stop them."""
    with command("grpc-cache", "--port=0", scratch=tmp_path) as process:
        until_it_answers(process)
        process.kill()
        process.wait()
    deadline = time.monotonic() + 20
    while running_in(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running_in(tmp_path) == []
